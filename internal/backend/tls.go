package backend

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

	driver "github.com/go-sql-driver/mysql"
)

// The parameters of an address that name PEM files: the certificates that sign the server's, instead of those that the system
// trusts, and the certificate and key of a server that wants to know its clients. They stand in the address, like its password, so
// that each server has its own and every command takes them.
const (
	paramCA   = "tls_ca"
	paramCert = "tls_cert"
	paramKey  = "tls_key"
)

// tlsFiles are the files that an address names; "" = none.
type tlsFiles struct{ ca, cert, key string }

// none says that the address names no file.
func (f tlsFiles) none() bool { return f == tlsFiles{} }

// takeTLSFiles takes the parameters out of a Redis URL, whose client refuses those that it does not know.
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
		return address, f, fmt.Errorf("%s and %s, %s are for rediss://", paramCA, paramCert, paramKey)
	}
	for _, name := range []string{paramCA, paramCert, paramKey} {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String(), f, nil
}

// redisTLS completes what a rediss:// URL asks for; nil for redis://.
func redisTLS(c *tls.Config, f tlsFiles) (*tls.Config, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no TLS, and that is no error
	}
	// A sentinel names masters and a cluster names nodes at other hosts: each is asked for the name that it is dialled by.
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
		return fmt.Errorf("%s and %s, %s want tls=true", paramCA, paramCert, paramKey)
	}
	return f.into(cfg.TLS)
}

// into reads the files.
func (f tlsFiles) into(c *tls.Config) error {
	c.MinVersion = tls.VersionTLS12
	if f.ca != "" {
		if c.InsecureSkipVerify {
			return fmt.Errorf("%s beside skip_verify: what is not verified needs no certificates", paramCA)
		}
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return fmt.Errorf("%s: %w", paramCA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: no certificate in %s", paramCA, f.ca)
		}
	}
	if f.cert == "" && f.key == "" {
		return nil
	}
	if f.cert == "" || f.key == "" {
		return errors.New(paramCert + " and " + paramKey + " go together")
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", paramCert, paramKey, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}
