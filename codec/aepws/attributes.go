package aepws

import (
	"hash/maphash"
	"strings"
)

// attribute is what a filter looks at, most selective first: the order in
// which an index prefers to file filters.
type attribute uint8

const (
	attrTask attribute = iota
	attrConversation
	attrSession
	attrTarget
	attrTopic
	attrSource
	attrCount
)

// attrNames has the filter members of B47 beside types, most selective first.
var attrNames = [attrCount]string{
	"task_id", "conversation_id", "session_id", "target", "topic", "source",
}

// Attributes are what a filter sees of an event. Empty means absent. Immutable;
// any goroutine.
type Attributes struct {
	Type, Source, Target, Topic       string
	SessionID, ConversationID, TaskID string
	// TenantID is the event's own or, when it named none, the session's (B46).
	TenantID string
}

// Attributes returns the attributes of an admitted event of a tenant. Its
// strings are one allocation of their own, so they may outlive the message.
func (e *Envelope) Attributes(tenant string) Attributes {
	n := len(e.Type) + len(e.Source) + len(e.Target) + len(e.Topic) +
		len(e.SessionID) + len(e.ConversationID) + len(e.TaskID)
	all := make([]byte, 0, n)
	keep := func(p []byte) string {
		start := len(all)
		all = append(all, p...)
		return borrow(all[start:])
	}
	return Attributes{
		Type: keep(e.Type), Source: keep(e.Source), Target: keep(e.Target),
		Topic: keep(e.Topic), SessionID: keep(e.SessionID),
		ConversationID: keep(e.ConversationID), TaskID: keep(e.TaskID),
		TenantID: tenant,
	}
}

func (a *Attributes) get(attr attribute) string {
	switch attr {
	case attrTask:
		return a.TaskID
	case attrConversation:
		return a.ConversationID
	case attrSession:
		return a.SessionID
	case attrTarget:
		return a.Target
	case attrTopic:
		return a.Topic
	}
	return a.Source
}

// Keys are hashes of (attribute, value) under a seed of this process, so that
// an index can find the filters which an event may match without a scan, and
// nobody can aim at collisions. A key proves nothing: Match has the last word.
var (
	keySeed   = maphash.MakeSeed()
	attrKeys  = attributeKeys()
	typeKey   = maphash.String(keySeed, "type of event")
	prefixKey = maphash.String(keySeed, "prefix of type")
	tenantKey = maphash.String(keySeed, "tenant of event")
)

func attributeKeys() (keys [attrCount]uint64) {
	for attr, name := range attrNames {
		keys[attr] = maphash.String(keySeed, "attribute "+name)
	}
	return keys
}

// textKey mixes the two hashes; the factor keeps a value that is spelled like
// a name from cancelling it.
func textKey(name uint64, s string) uint64 {
	return name*3 ^ maphash.String(keySeed, s)
}

// AppendKeys appends the index keys of the event to dst, at most 16 of them:
// its tenant, each attribute that it has, its type and the prefixes of that. A
// filter that matches the event has one of them in each of its Candidates
// (E4). It does not allocate if dst has room.
func (a *Attributes) AppendKeys(dst []uint64) []uint64 {
	dst = append(dst, textKey(tenantKey, a.TenantID), textKey(typeKey, a.Type))
	for attr := range attrCount {
		if s := a.get(attr); s != "" {
			dst = append(dst, textKey(attrKeys[attr], s))
		}
	}
	end := 0
	for range maxTypeSegments {
		dot := strings.IndexByte(a.Type[end:], '.')
		if dot < 0 {
			break
		}
		end += dot + 1
		dst = append(dst, textKey(prefixKey, a.Type[:end]))
	}
	return dst
}
