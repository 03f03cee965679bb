package stack

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/template"

	"lastitem/contract/api"
)

//go:embed nginx.conf.tmpl
var nginxTemplate string

var nginxConf = template.Must(template.New("nginx.conf").Parse(nginxTemplate))

// edgeProblem is an error of the balancer's own, in the shape that the shop itself answers.
type edgeProblem struct {
	Status int
	Body   string
	// RetryAfter is set where nothing happened and it may do so later.
	RetryAfter bool
	// Unsent is the body of the 503 where a replica did not answer because nothing was sent to it; "" elsewhere.
	Unsent string
}

// edgeStatuses says what an error status made by a balancer itself means for the caller. A balancer that has sent the
// request on and got no answer does not know what happened.
var edgeStatuses = []struct {
	status int
	code   api.Code
}{
	{400, api.InvalidRequest},
	{404, api.NotFound},
	{405, api.MethodNotAllowed},
	{408, api.InvalidRequest},
	{411, api.InvalidRequest},
	{413, api.BodyTooLarge},
	{414, api.InvalidRequest},
	{429, api.RateLimited},
	{500, api.Internal},
	{501, api.InvalidRequest},
	{502, api.OutcomeUnknown},
	{503, api.BackendUnavailable},
	{504, api.OutcomeUnknown},
	{505, api.InvalidRequest},
}

// edgeBody is the body of an error made by a balancer: the facts of the code, with the status really sent.
func edgeBody(status int, code api.Code, detail string) string {
	p := api.NewProblem(code, detail, "")
	p.Status = status
	body, _ := json.Marshal(p) // strings and numbers: cannot fail
	return string(body)
}

// nginxServer is an nginx in one process, without a master, with everything it writes in the private directory.
func nginxServer(path string, targets []string, o *Options) server {
	number, _ := version(path, "-v")
	return server{
		name: "balancer",
		kind: "nginx " + number,
		addr: o.Listen,
		url:  overHTTP,
		setup: func(at site) ([]string, error) {
			file := at.file("nginx.conf")
			conf, err := renderNginx(edge{listen: at.addr, targets: targets, keepFailing: o.KeepFailing, console: o.Console})
			if err != nil {
				return nil, err
			}
			return nginxArgv(path, number, at.dir, file), os.WriteFile(file, conf, 0o600)
		},
		ready: func(ctx context.Context, addr string) error { return answers200(ctx, addr, "/readyz") },
		grace: grace,
	}
}

// nginxArgv is the command line. Without -e an nginx that runs as root creates its usual log file even when its
// configuration names another; nginx before 1.19.5 does not know -e.
func nginxArgv(path, version, dir, file string) []string {
	argv := []string{path, "-p", dir, "-c", file}
	if atLeast(version, 1, 19, 5) {
		argv = append(argv, "-e", "stderr")
	}
	return argv
}

// edge says what an nginx does.
type edge struct {
	listen      string
	targets     []string // host:port, or "host:port backup"
	keepFailing bool     // see Options.KeepFailing
	console     string   // see Options.Console
	again       string   // when a POST goes to the next replica; "" = only when it was not sent, the rule of 'shop up'
	read        string   // how long a replica may take to answer; "" = 75s
}

// renderNginx writes the configuration. The template has the rules of 'shop up' in plain words; again and read replace
// theirs.
func renderNginx(e edge) ([]byte, error) {
	data := struct {
		Listen   string
		Targets  []string
		Console  string
		MaxFails int
		Problems []edgeProblem
	}{Listen: e.listen, Targets: e.targets, Console: e.console, MaxFails: 1}
	if e.keepFailing {
		data.MaxFails = 0
	}
	for _, e := range edgeStatuses {
		body := edgeBody(e.status, e.code, "answered by the balancer")
		if strings.ContainsAny(body, `'$\`) {
			return nil, fmt.Errorf("stack: %q cannot stand in an nginx string", body)
		}
		p := edgeProblem{Status: e.status, Body: body, RetryAfter: api.Codes[e.code].Happened == api.NoForNow}
		if e.code == api.OutcomeUnknown {
			p.Unsent = edgeBody(http.StatusServiceUnavailable, api.BackendUnavailable,
				"no connection to a replica; nothing was sent")
		}
		data.Problems = append(data.Problems, p)
	}
	var conf bytes.Buffer
	if err := nginxConf.Execute(&conf, data); err != nil {
		return nil, err
	}
	out := conf.Bytes()
	for rule, other := range map[string]string{
		"proxy_next_upstream error timeout;": e.again, "proxy_read_timeout 75s;": e.read,
	} {
		if other == "" {
			continue
		}
		if bytes.Count(out, []byte(rule)) != 1 {
			return nil, fmt.Errorf("stack: nginx.conf.tmpl has no line %q to replace", rule)
		}
		directive, _, _ := strings.Cut(rule, " ")
		out = bytes.Replace(out, []byte(rule), []byte(directive+" "+other+";"), 1)
	}
	return out, nil
}
