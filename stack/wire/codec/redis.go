package codec

import (
	"fmt"
	"slices"
	"strings"

	"lastitem/stack/wire"
)

// Redis reads RESP 2 and 3. MULTI to EXEC is one call, in the place of EXEC: commands before it have no effect. The
// connection of a subscriber has polls and pushes. Clients that switch replies off are refused. A replica's link is
// closed without an error: a foreign replica whose master is gone may go on dialling the master's address, whose port
// the proxy has now.
var Redis = wire.Codec{Plain: true, Begin: func() wire.Session {
	return &redisSession{channels: map[string]map[string]bool{}}
}}

type redisSession struct {
	waiting  []*redisCall
	multi    []*wire.Command // since MULTI
	name     string
	channels map[string]map[string]bool // that are subscribed to, by the kind of subscription: "", "p", "s"
	resp3    bool
}

// redisCall is a command without an answer. A subscription has as many confirmations as channels; -1 = as many as there
// are.
type redisCall struct {
	call     *wire.Command
	verb     string
	confirms int
}

func (s *redisSession) Command(p []byte) (wire.Message, error) {
	words, n, err := respCommand(p)
	m := wire.Message{Size: n}
	if err != nil || n == 0 || len(words) == 0 {
		return m, err
	}
	verb := strings.ToUpper(words[0])
	switch verb {
	case "PSYNC", "SYNC", "REPLCONF":
		return m, wire.ErrReplica
	}
	if why := redisRefused(verb, words); why != "" {
		return m, fmt.Errorf("%s %s", RedisText(words[:1]), why)
	}
	c := &redisCall{call: &wire.Command{}, verb: verb}
	k := c.call
	k.Words, k.Text, k.Pattern, k.Said = words, RedisText(words), redisPattern(verb, words), respSaid
	k.Setup, k.Poll = redisSetup[verb], redisPoll(verb, words)
	if strings.HasSuffix(verb, "SUBSCRIBE") && s.multi == nil {
		k.Poll, k.Quiet, k.Listens = true, true, !strings.HasSuffix(verb, "UNSUBSCRIBE")
		c.confirms = len(words) - 1
		if c.confirms == 0 {
			c.confirms = -1
		}
	}
	s.named(verb, words)
	k.Name = s.name
	s.waiting = append(s.waiting, c)
	m.Command = k
	s.transaction(verb, k)
	return m, nil
}

// transaction gathers the commands from MULTI to its end, and makes that the call.
func (s *redisSession) transaction(verb string, k *wire.Command) {
	switch {
	case verb == "RESET":
		s.multi = nil
	case verb == "MULTI" && s.multi == nil:
		k.Inside, s.multi = true, []*wire.Command{k}
	case s.multi == nil:
	case verb == "EXEC" || verb == "DISCARD":
		own := k.Call
		k.Own = &own
		k.Words, k.Text, k.Pattern = nil, "", ""
		for _, part := range s.multi {
			k.Words = append(k.Words, part.Words...)
			k.Text += part.Text + "; "
			k.Pattern += part.Pattern + "; "
		}
		k.Words, k.Text, k.Pattern = append(k.Words, own.Words...), k.Text+own.Text, k.Pattern+own.Pattern
		s.multi = nil
	default:
		k.Inside, k.Poll = true, false // nothing waits inside
		s.multi = append(s.multi, k)
	}
}

// named notes the name that a client gives its connection.
func (s *redisSession) named(verb string, words []string) {
	switch {
	case verb == "RESET":
		s.name = ""
	case verb == "CLIENT" && len(words) > 2 && strings.EqualFold(words[1], "SETNAME"):
		s.name = words[2]
	case verb == "HELLO":
		if i := slices.IndexFunc(words, func(w string) bool {
			return strings.EqualFold(w, "SETNAME")
		}); i > 0 && i+1 < len(words) {
			s.name = words[i+1]
		}
	}
}

// redisRefused says why a command cannot be followed.
func redisRefused(verb string, words []string) string {
	switch verb {
	case "MONITOR":
		return "makes a connection of another kind: connect to the server itself"
	case "CLIENT":
		if len(words) > 1 && strings.EqualFold(words[1], "REPLY") {
			return "REPLY leaves commands without an answer, which cannot be followed"
		}
	}
	return ""
}

// redisSetup are the commands that make, check and close connections, or ask where the servers are.
var redisSetup = map[string]bool{
	"HELLO": true, "AUTH": true, "CLIENT": true, "COMMAND": true, "SELECT": true, "PING": true, "QUIT": true,
	"RESET":    true,
	"READONLY": true, "READWRITE": true, "INFO": true, "ROLE": true, "CLUSTER": true, "SENTINEL": true,
}

// redisPoll says whether a command waits until there is something.
func redisPoll(verb string, words []string) bool {
	switch verb {
	case "BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP":
		return true
	case "XREAD", "XREADGROUP":
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "BLOCK") })
	}
	return false
}

func (s *redisSession) Answer(p []byte) (wire.Message, error) {
	n, err := respReply(p)
	m := wire.Message{Size: n}
	if err != nil || n == 0 {
		return m, err
	}
	if p[0] == '>' || p[0] == '*' && !s.resp3 && s.subscriber() {
		words := respWords(p[:n], 4)
		kind := ""
		if len(words) > 0 {
			kind = words[0]
		}
		switch {
		case strings.HasSuffix(kind, "subscribe"):
			s.confirmed(&m, words)
			return m, nil
		case p[0] == '>' || kind == "message" || kind == "pmessage" || kind == "smessage":
			m.Push = &wire.Command{}
			m.Push.Words, m.Push.Text, m.Push.Name = words, RedisText(words), s.name
			m.Push.Pattern = strings.ToUpper(kind)
			if len(words) > 2 { // the last one is the message
				m.Push.Pattern += " " + Key(strings.Join(words[1:len(words)-1], " "))
			}
			return m, nil
		}
	}
	if len(s.waiting) > 0 { // else it says why it closes the connection
		c := s.waiting[0]
		m.Of, m.Last = c.call, true
		s.waiting = s.waiting[1:]
		if p[0] == '-' {
			m.Failed, _, _ = strings.Cut(strings.TrimSpace(string(p[1:n])), " ")
		}
		s.learn(c.verb, p[0])
	}
	return m, nil
}

// learn notes what an answer, by its first byte, changes about the connection.
func (s *redisSession) learn(verb string, first byte) {
	switch {
	case first == '-':
	case verb == "HELLO":
		s.resp3 = first == '%'
	case verb == "RESET": // to RESP 2 without subscriptions
		s.resp3 = false
		clear(s.channels)
	}
}

// subscriber says whether the server may send messages by itself.
func (s *redisSession) subscriber() bool {
	for _, names := range s.channels {
		if len(names) > 0 {
			return true
		}
	}
	return len(s.waiting) > 0 && s.waiting[0].confirms != 0
}

// confirmed reads that a subscription begins or ends. If the client did not ask for that, as when a slot moves, it has
// no call.
func (s *redisSession) confirmed(m *wire.Message, words []string) {
	kind, channel := words[0], ""
	if len(words) > 1 {
		channel = words[1]
	}
	which := strings.TrimSuffix(strings.TrimSuffix(kind, "subscribe"), "un")
	if s.channels[which] == nil {
		s.channels[which] = map[string]bool{}
	}
	names := s.channels[which]
	var c *redisCall
	if len(s.waiting) > 0 && strings.EqualFold(s.waiting[0].verb, kind) {
		c = s.waiting[0]
		if c.confirms < 0 {
			c.confirms = max(1, len(names))
		}
	}
	if strings.HasSuffix(kind, "unsubscribe") {
		delete(names, channel)
	} else {
		names[channel] = true
	}
	if c != nil {
		c.confirms--
		m.Of, m.Last = c.call, c.confirms == 0
		if m.Last {
			s.waiting = s.waiting[1:]
		}
	}
}
