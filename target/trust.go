package target

import (
	"crypto/tls"
	"errors"
	"net/http"

	"lastitem/say/text"
)

// AnyCertificate takes every certificate, also one that nobody knows: --insecure.
func AnyCertificate() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // what the user asks for
}

// NewTransport returns a transport that adds nothing to a request. insecure: it takes every certificate.
func NewTransport(insecure bool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // the header Accept-Encoding is not in the call
	if insecure {
		t.TLSClientConfig = AnyCertificate()
	}
	return t
}

// distrusted says what helps where a certificate is not trusted; zero = the error is another.
func distrusted(err error) text.Text {
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); !is {
		return text.Text{}
	}
	return text.Of("; 'shop loadtest' takes such a certificate with --insecure, and SSL_CERT_FILE names a file with " +
		"those that are trusted")
}
