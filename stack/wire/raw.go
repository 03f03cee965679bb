package wire

// Raw is for bytes that nobody reads: there are no calls, and whatever the server says is a push.
var Raw = Codec{Begin: func() Session { return rawSession{} }}

type rawSession struct{}

func (rawSession) Command(p []byte) (Message, error) { return Message{Size: len(p)}, nil }

func (rawSession) Answer(p []byte) (Message, error) {
	return Message{Size: len(p), Push: &Command{}}, nil
}
