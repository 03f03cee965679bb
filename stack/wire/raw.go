package wire

// Raw is for bytes that nobody reads: there are no calls, and whatever the server says is a push.
var Raw = Codec{name: "raw", begin: func() session { return rawSession{} }}

type rawSession struct{}

func (rawSession) command(p []byte) (message, error) { return message{size: len(p)}, nil }

func (rawSession) answer(p []byte) (message, error) {
	return message{size: len(p), push: &call{}}, nil
}
