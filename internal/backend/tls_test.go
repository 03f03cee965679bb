package backend_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lastitem/internal/backend"
	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

// authority signs certificates, and writes them as PEM files below dir.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: "a CA of this test's own"},
	})
	a.issue(t, "server", &x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	a.issue(t, "client", &x509.Certificate{Subject: pkix.Name{CommonName: "client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return a
}

// file is where the certificate ("ca.pem") or the key ("ca.key") of a name is.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue makes a certificate; the first one signs itself and all others.
func (a *authority) issue(t *testing.T, name string, c *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	testkit.Must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.Must(t, err)
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		testkit.Must(t, os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600))
	}
}

// query names files of the authority, as parameters of an address.
func (a *authority) query(files ...string) string {
	q := url.Values{}
	for i, param := range []string{"tls_ca", "tls_cert", "tls_key"} {
		if i < len(files) && files[i] != "" {
			q.Set(param, a.file(files[i]))
		}
	}
	return q.Encode()
}

// tlsRedis is a server that wants certificates of its clients, as Redis does by default, and its port for TLS.
func tlsRedis(t *testing.T, a *authority) (password, port string) {
	t.Helper()
	node := testenv.RedisNodes(t, 1, "tls-cert-file "+a.file("server.pem"), "tls-key-file "+a.file("server.key"),
		"tls-ca-cert-file "+a.file("ca.pem"))[0]
	o, err := redis.ParseURL(node.URL)
	testkit.Must(t, err)
	admin := redis.NewClient(o)
	defer admin.Close()
	for range 20 {
		free := testkit.Listen(t)
		_, port, _ = net.SplitHostPort(free.Addr().String())
		free.Close()
		if err = admin.ConfigSet(t.Context(), "tls-port", port).Err(); err == nil {
			return o.Password, port
		}
		if strings.Contains(err.Error(), "Unknown option") || strings.Contains(err.Error(), "no such configuration") {
			testkit.Missing(t, "a Redis built with TLS", err)
		}
	}
	t.Fatal("no free port for TLS")
	return "", ""
}

// anyError is wanted where the server hangs up: the client may notice when it reads or when it writes.
const anyError = "an error"

func TestRedisTLS(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	password, port := tlsRedis(t, a)
	whole := a.query("ca.pem", "client.pem", "client.key")
	for name, c := range map[string]struct{ scheme, host, query, want string }{
		"its CA, a client's certificate": {"rediss", "127.0.0.1", whole, ""},
		"the system's CAs": {"rediss", "127.0.0.1", a.query("", "client.pem", "client.key"),
			"unknown authority"},
		"another CA":   {"rediss", "127.0.0.1", other.query("ca.pem"), "unknown authority"},
		"another name": {"rediss", "localhost", whole, "match localhost"},
		"unverified, as asked for": {"rediss", "localhost", "skip_verify=true&" + a.query("", "client.pem", "client.key"),
			""},
		"no client's certificate": {"rediss", "127.0.0.1", a.query("ca.pem"), anyError},
		"no TLS":                  {"redis", "127.0.0.1", "", anyError},
	} {
		client, err := backend.OpenRedis(fmt.Sprintf("%s://:%s@%s:%s/0?%s", c.scheme, password, c.host, port, c.query), 1)
		if err != nil {
			t.Errorf("%s: OpenRedis() = %v, want nil", name, err)
			continue
		}
		err = client.Set(t.Context(), "k", "v", 0).Err()
		if (c.want == "") != (err == nil) || err != nil && c.want != anyError && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: SET = %v, want %q in it", name, err, c.want)
		}
		client.Close()
	}
}

func TestMySQLTLS(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	dsn := testenv.MySQLNodes(t, 1, "--ssl-ca="+a.file("ca.pem"), "--ssl-cert="+a.file("server.pem"),
		"--ssl-key="+a.file("server.key"))[0]
	exec(t, open(t, dsn), "CREATE USER 'tls'@'127.0.0.1' IDENTIFIED BY 'secret' REQUIRE X509")
	exec(t, open(t, dsn), "GRANT SELECT ON lastitem.* TO 'tls'@'127.0.0.1'")
	addr := parsed(t, dsn).Addr
	_, port, _ := net.SplitHostPort(addr)
	whole := a.query("ca.pem", "client.pem", "client.key")
	for name, c := range map[string]struct{ address, want string }{
		"its CA, a client's certificate": {"tls:secret@tcp(" + addr + ")/lastitem?tls=true&" + whole, ""},
		"as a URL":                       {"mysql://tls:secret@" + addr + "/lastitem?tls=true&" + whole, ""},
		"the system's CAs":               {"tls:secret@tcp(" + addr + ")/lastitem?tls=true", "unknown authority"},
		"another CA": {"tls:secret@tcp(" + addr + ")/lastitem?tls=true&" + other.query("ca.pem"),
			"unknown authority"},
		"another name":             {"tls:secret@tcp(localhost:" + port + ")/lastitem?tls=true&" + whole, "match localhost"},
		"no client's certificate":  {"tls:secret@tcp(" + addr + ")/lastitem?tls=true&" + a.query("ca.pem"), "1045"},
		"no TLS":                   {"tls:secret@tcp(" + addr + ")/lastitem", "1045"},
		"unverified, as asked for": {dsn + "?tls=skip-verify", ""},
	} {
		var cipher string
		err := open(t, c.address).Raw("SHOW SESSION STATUS LIKE 'Ssl_cipher'").Row().Scan(new(string), &cipher)
		switch {
		case c.want == "" && (err != nil || cipher == ""):
			t.Errorf("%s: the cipher is %q, %v, want one", name, cipher, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}
