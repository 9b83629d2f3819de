package http1

// Chunk framing that a body may have beyond what its data excuses. A chunk
// excuses 16 octets and twice its size, so that only a body made of extensions
// gets there: without a bound one octet of data may cost ChunkLineBytes.
const maxOverheadBytes = 16 << 10

// feedFixed hands on octets of a body of known length.
func (p *Parser) feedFixed(in []byte) (int, Step, []byte) {
	if len(in) == 0 {
		return 0, NeedMore, nil
	}
	data := p.take(in, stateEnd)
	return len(data), GotBody, data
}

// take returns the part of in that belongs to the body or chunk, and enters
// next when nothing of it is left.
func (p *Parser) take(in []byte, next state) []byte {
	if int64(len(in)) > p.needBytes {
		in = in[:p.needBytes]
	}
	if p.needBytes -= int64(len(in)); p.needBytes == 0 {
		p.state = next
	}
	return in
}

// feedChunked reads framing until there is data, or the end.
func (p *Parser) feedChunked(in []byte) (int, Step, []byte, *Error) {
	for i, c := range in {
		if p.state == stateChunkData {
			data := p.take(in[i:], stateChunkCR)
			return i + len(data), GotBody, data, nil
		}
		done, fail := p.chunkByte(c)
		if fail != nil {
			return i, NeedMore, nil, fail
		}
		if done {
			*p = Parser{}
			return i + 1, GotEnd, nil, nil
		}
	}
	return len(in), NeedMore, nil, nil
}

// chunkByte reads one octet of chunk framing; done tells that it was the last
// one of the request.
func (p *Parser) chunkByte(c byte) (done bool, fail *Error) {
	switch p.state {
	case stateChunkSize:
		return false, p.sizeByte(c)
	case stateChunkExt:
		return false, p.extensionByte(c)
	case stateChunkLineLF:
		if c != '\n' {
			return false, ErrChunkSize
		}
		return false, p.endSizeLine()
	case stateChunkCR:
		if c != '\r' {
			return false, ErrChunkEnd
		}
		p.state = stateChunkLF
	case stateChunkLF:
		if c != '\n' {
			return false, ErrChunkEnd
		}
		p.state = stateChunkSize
	case stateFinalLF:
		if c != '\n' {
			return false, ErrTrailer
		}
		return true, nil
	default:
		return false, p.trailerByte(c)
	}
	return false, nil
}

// sizeByte reads the digits of a chunk size and what ends them. No sign, no
// space and no prefix is taken.
func (p *Parser) sizeByte(c byte) *Error {
	p.lineBytes++
	if v := unhex(c); v >= 0 {
		if p.digitCount == maxChunkDigits {
			return ErrChunkSize
		}
		p.digitCount++
		p.needBytes = p.needBytes<<4 | int64(v)
		return nil
	}
	switch {
	case p.digitCount == 0:
		return ErrChunkSize
	case c == ';':
		p.state = stateChunkExt
	case c == '\r':
		p.state = stateChunkLineLF
	default:
		return ErrChunkSize
	}
	return nil
}

// extensionByte reads an extension, which is checked and dropped.
func (p *Parser) extensionByte(c byte) *Error {
	p.lineBytes++
	switch {
	case p.lineBytes >= ChunkLineBytes: // an LF has to follow
		return ErrChunkLine
	case c == '\r':
		p.state = stateChunkLineLF
	case !is(c, classText):
		return ErrChunkExtension
	}
	return nil
}

// endSizeLine enters the chunk's data, or the trailers after the last chunk.
func (p *Parser) endSizeLine() *Error {
	const lineEnds = 3 // LF of this line, CRLF after the data
	excess := int64(p.overheadBytes) + int64(p.lineBytes) + lineEnds - 16 - 2*p.needBytes
	if excess > maxOverheadBytes {
		return ErrChunkOverhead
	}
	p.overheadBytes = int32(max(excess, 0))
	p.lineBytes, p.digitCount = 0, 0
	p.state = stateChunkData
	if p.needBytes == 0 {
		p.state = stateTrailer
	}
	return nil
}

// trailerByte reads the trailer section, which is checked and dropped (RFC 9112
// section 7.1.2 allows that).
func (p *Parser) trailerByte(c byte) *Error {
	if p.lineBytes++; p.lineBytes >= TrailerBytes { // an LF has to follow
		return ErrTrailerTooLarge
	}
	switch {
	case p.state == stateTrailer && c == '\r':
		p.state = stateFinalLF
	case p.state == stateTrailer && is(c, classToken):
		p.state = stateTrailerName
	case p.state == stateTrailerName && c == ':':
		p.state = stateTrailerText
	case p.state == stateTrailerName && is(c, classToken):
	case p.state == stateTrailerText && c == '\r':
		p.state = stateTrailerLF
	case p.state == stateTrailerText && is(c, classText):
	case p.state == stateTrailerLF && c == '\n':
		p.state = stateTrailer
	default:
		return ErrTrailer
	}
	return nil
}
