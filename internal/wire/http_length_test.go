package wire

import "testing"

// A length that is none is refused, wherever it comes from; such a head must not end the process of the proxy.
func TestHTTPRefusesLengths(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"-5", "5x", "99999999999999999999"} {
		s := HTTP.begin()()
		m, err := s.command([]byte("POST / HTTP/1.1\r\nContent-Length: " + length + "\r\n\r\nhello"))
		if err == nil {
			t.Errorf("a request with the length %s: %d bytes, want an error", length, m.size)
		}
		s = HTTP.begin()()
		if _, err := s.command([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: " + length + "\r\n\r\nhello")
		m, err = s.answer(answer)
		if err == nil && m.size > 0 {
			m, err = s.answer(answer[m.size:])
		}
		if err == nil {
			t.Errorf("an answer with the length %s: %d bytes of the body, want an error", length, m.size)
		}
	}
}
