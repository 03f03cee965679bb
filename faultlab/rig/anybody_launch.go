package rig

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

func (f *Foreign) argv(l Launch, addr string) []string {
	words, _ := SplitWords(f.Serve)
	values := f.values(l, addr)
	for i, w := range words {
		words[i] = expand(w, values)
	}
	return words
}

func (f *Foreign) env(l Launch, addr string) []string {
	env, values := make([]string, len(f.Env)), f.values(l, addr)
	for i, e := range f.Env {
		env[i] = expand(e, values)
	}
	return env
}

// values returns the values of the placeholders of a command line.
func (f *Foreign) values(l Launch, addr string) map[string]string {
	_, port, _ := net.SplitHostPort(addr)
	v := map[string]string{
		"port": port, "addr": addr, "replica": l.Actor,
		"ttl_ms": strconv.FormatInt(l.TTL.Milliseconds(), 10), "ttl_s": strconv.FormatFloat(l.TTL.Seconds(), 'f', -1, 64),
	}
	if to, err := url.Parse(l.URLs["SHOP_REDIS"]); err == nil && to.Host != "" {
		v["redis"], v["redis_addr"], v["redis_host"], v["redis_port"] = to.String(), to.Host, to.Hostname(), to.Port()
		v["redis_password"], _ = to.User.Password()
	}
	if user, password, addr, database, ok := parseDSN(l.URLs["SHOP_SQL"]); ok {
		host, port, _ := net.SplitHostPort(addr)
		v["mysql_dsn"], v["mysql_addr"], v["mysql_host"], v["mysql_port"] = l.URLs["SHOP_SQL"], addr, host, port
		v["mysql_user"], v["mysql_password"], v["mysql_database"] = user, password, database
		v["mysql"] = "mysql://" + user + ":" + password + "@" + addr + "/" + database
		v["mysql_jdbc"] = "jdbc:mysql://" + addr + "/" + database + "?sslMode=DISABLED&user=" + user + "&password=" + password
	}
	return v
}

// parseDSN splits a DSN that the lab has made: user:password@tcp(addr)/database.
func parseDSN(dsn string) (user, password, addr, database string, ok bool) {
	account, rest, ok := strings.Cut(dsn, "@tcp(")
	user, password, _ = strings.Cut(account, ":")
	addr, database, found := strings.Cut(rest, ")/")
	return user, password, addr, database, ok && found
}

// ready returns nil when the replica answers as Ready demands.
func (f *Foreign) ready(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+cmp.Or(f.Ready, "/"), nil)
	if err != nil {
		return err
	}
	res, err := probe.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if f.Ready != "" && res.StatusCode/100 != 2 && res.StatusCode/100 != 3 {
		return fmt.Errorf("GET %s: %s", f.Ready, res.Status)
	}
	return nil
}
