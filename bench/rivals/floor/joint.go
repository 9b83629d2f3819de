package floor

// joint makes the joined frames of a pass.
type joint struct {
	topics map[string][]byte
}

// all joins the frames of all events, in bytes of their own unless there is
// only one: a backlog may refer to them for long.
func (j *joint) all(events []event) []byte {
	if len(events) == 1 {
		return events[0].frame
	}
	size := 0
	for i := range events {
		size += len(events[i].frame)
	}
	b := make([]byte, 0, size)
	for i := range events {
		b = append(b, events[i].frame...)
	}
	return b
}

// byTopic joins the frames of the events of each topic that has a group. The
// map is valid until the next call.
func (j *joint) byTopic(events []event, groups map[string][]*consumer) map[string][]byte {
	if j.topics == nil {
		j.topics = make(map[string][]byte)
	}
	clear(j.topics)
	for i := range events {
		e := &events[i]
		if e.topic == "" || len(groups[e.topic]) == 0 {
			continue
		}
		joined, ok := j.topics[e.topic]
		if !ok {
			// Capped, so that the next append moves to bytes of its own.
			j.topics[e.topic] = e.frame[:len(e.frame):len(e.frame)]
			continue
		}
		j.topics[e.topic] = append(joined, e.frame...)
	}
	return j.topics
}
