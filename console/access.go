package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// policy is the Content-Security-Policy of every answer: the page loads from and calls only this server, runs no inline
// script, and cannot be framed.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

var (
	errNoSession = errors.New("no session: open the address that was printed with the token, or give the token")
	errWrong     = errors.New("wrong token")
	errForeign   = errors.New("sent by a page of another origin")
	errHost      = errors.New("the console is not served under this host name")
)

// wrongTokenDelay is the pause before a wrong token is refused. Wrong tokens of all clients wait in one line. It slows
// down a client that waits for the answer to each guess. It does not limit guessing, since the right token passes at
// once: otherwise anybody could lock the operator out. Two other things limit guessing: a proxy in front, such as nginx
// in docker-compose.yml, and the length of the token. 'shop play' creates one of 128 random bits.
const wrongTokenDelay = 300 * time.Millisecond

// access decides which requests are allowed. The page sends the token once, as a bearer token: it finds the token in
// the fragment of the address, and removes it there. In return the browser gets a cookie that no script can read, and
// that no page of another site can make it send.
type access struct {
	token   [sha256.Size]byte
	none    bool // there is no token: nobody can log in
	session string
	hosts   []string      // in lower case
	guesses chan struct{} // one wrong token at a time
	origins *http.CrossOriginProtection

	mu   sync.Mutex
	once []byte // the hash of the code that one login may use in place of the token; nil = there is none
}

func newAccess(token string, hosts []string) *access {
	var names []string
	for _, host := range hosts {
		names = append(names, strings.Fields(strings.ToLower(host))...)
	}
	return &access{
		token: sha256.Sum256([]byte(token)), none: token == "", session: secret(), hosts: names,
		guesses: make(chan struct{}, 1), origins: http.NewCrossOriginProtection(),
	}
}

// secret returns 128 random bits as text.
func secret() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// oneTimeCode returns a new code, and voids the one before.
func (a *access) oneTimeCode() string {
	code := secret()
	sum := sha256.Sum256([]byte(code))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.once = sum[:]
	return code
}

// spend reports whether a request has the code, which is void from then on.
func (a *access) spend(r *http.Request) bool {
	sum, ok := bearerHash(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !ok || a.none || a.once == nil || subtle.ConstantTimeCompare(sum[:], a.once) != 1 {
		return false
	}
	a.once = nil
	return true
}

// guard wraps a handler with the checks and headers of every answer.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-cache")
		if err := a.admit(r); err != nil {
			fail(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit refuses requests of another site's pages, and host names that may belong to another site (DNS rebinding).
func (a *access) admit(r *http.Request) error {
	if !a.served(r.Host) {
		return errHost
	}
	if a.origins.Check(r) != nil {
		return errForeign
	}
	return nil
}

// served reports whether a host is allowed: an IP address, localhost, or one of Options.Hosts.
func (a *access) served(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || net.ParseIP(name) != nil ||
		slices.Contains(a.hosts, name) ||
		slices.Contains(a.hosts, "*")
}

// cookieName contains the port, because browsers send a cookie of one port to all ports of the host.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "80"
	}
	return "lastitem-console-" + port
}

// login exchanges the bearer token, or the one-time code in its place, for the cookie.
func (a *access) login(w http.ResponseWriter, r *http.Request) {
	if !a.bearer(r) && !a.spend(r) {
		select {
		case a.guesses <- struct{}{}:
			rest(r.Context(), wrongTokenDelay)
			<-a.guesses
		case <-r.Context().Done(): // the client has left
		}
		fail(w, errWrong)
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where the page came over TLS; a browser keeps no Secure cookie of plain HTTP
		Name: cookieName(r), Value: a.session, Path: "/console/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil,
	})
	w.WriteHeader(http.StatusNoContent)
}

func (a *access) bearer(r *http.Request) bool {
	sum, ok := bearerHash(r)
	return ok && !a.none && subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1
}

// bearerHash returns the hash of a request's bearer token, and whether it has one; both take a time that does not
// depend on the token.
func bearerHash(r *http.Request) (sum [sha256.Size]byte, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return sha256.Sum256([]byte(strings.TrimSpace(token))), strings.EqualFold(scheme, "Bearer")
}

// wants lets a request pass that has the cookie, or the token itself, as curl sends it.
func (a *access) wants(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !a.has(r) {
			fail(w, errNoSession)
			return
		}
		next(w, r)
	}
}

// has says whether a request has the cookie or the token.
func (a *access) has(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(r))
	return err == nil && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(a.session)) == 1 || a.bearer(r)
}
