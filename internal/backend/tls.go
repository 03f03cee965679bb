package backend

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"

	driver "github.com/go-sql-driver/mysql"

	"lastitem/say/text"
)

// The parameters of an address that name PEM files: the CAs to trust instead of the system's, and a client certificate
// with its key. They are part of the address, like its password, so that each server can have its own and every command
// accepts them.
const (
	paramCA   = "tls_ca"
	paramCert = "tls_cert"
	paramKey  = "tls_key"
)

// tlsFiles are the files that an address names; "" = none.
type tlsFiles struct{ ca, cert, key string }

// none says whether the address names no file.
func (f tlsFiles) none() bool { return f == tlsFiles{} }

// takeTLSFiles removes the parameters from a Redis URL, since the client refuses unknown ones.
func takeTLSFiles(address string) (rest string, f tlsFiles, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return address, f, err
	}
	query := u.Query()
	f = tlsFiles{query.Get(paramCA), query.Get(paramCert), query.Get(paramKey)}
	if f.none() {
		return address, f, nil
	}
	if u.Scheme != "rediss" {
		return address, f, text.Of("%s and %s, %s are for rediss://").Errorf(paramCA, paramCert, paramKey)
	}
	for _, name := range []string{paramCA, paramCert, paramKey} {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String(), f, nil
}

// redisTLS returns the TLS configuration of a rediss:// URL; nil for redis://.
func redisTLS(c *tls.Config, f tlsFiles) (*tls.Config, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no TLS is not an error
	}
	// Sentinel and a cluster name further hosts: the certificate of each must match the name that is dialled.
	c.ServerName = ""
	return c, f.into(c)
}

// mysqlTLS reads the files that a DSN names. The driver would send their parameters to the server, as system variables.
func mysqlTLS(cfg *driver.Config) error {
	f := tlsFiles{cfg.Params[paramCA], cfg.Params[paramCert], cfg.Params[paramKey]}
	if f.none() {
		return nil
	}
	for _, name := range []string{paramCA, paramCert, paramKey} {
		delete(cfg.Params, name)
	}
	if cfg.TLSConfig != "true" {
		return text.Of("%s and %s, %s want tls=true").Errorf(paramCA, paramCert, paramKey)
	}
	return f.into(cfg.TLS)
}

// into reads the files.
func (f tlsFiles) into(c *tls.Config) error {
	c.MinVersion = tls.VersionTLS12
	if f.ca != "" {
		if c.InsecureSkipVerify {
			return text.Of("%s and skip_verify exclude each other: without verification no certificates are needed").
				Errorf(paramCA)
		}
		said, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("%s: %w", paramCA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(said) {
			return text.Of("%s: no certificate in %s").Errorf(paramCA, f.ca)
		}
	}
	if f.cert == "" && f.key == "" {
		return nil
	}
	if f.cert == "" || f.key == "" {
		return text.Of("%s and %s go together").Errorf(paramCert, paramKey)
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", paramCert, paramKey, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}
