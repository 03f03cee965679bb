package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"lastitem/testkit"
	"lastitem/testkit/testenv"
)

const manifests = "../../deploy/k8s/base/"

// pod is what the test reads of the Deployment for Kubernetes.
type pod struct {
	Grace    int `yaml:"terminationGracePeriodSeconds"`
	Security struct {
		User  uint32 `yaml:"runAsUser"`
		Group uint32 `yaml:"runAsGroup"`
	} `yaml:"securityContext"`
	Containers []struct {
		Args []string
		Env  []struct {
			Name      string
			ValueFrom struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
			} `yaml:"valueFrom"`
		}
		StartupProbe   probe `yaml:"startupProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
		ReadinessProbe probe `yaml:"readinessProbe"`
	}
}

// probe is a probe of the kubelet.
type probe struct {
	Get struct {
		Path string
	} `yaml:"httpGet"`
}

func manifest(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(manifests + name)
	testkit.Must(t, err)
	testkit.Must(t, yaml.Unmarshal(text, into))
}

// TestKubernetesRunsIt runs a replica as the manifests for Kubernetes say, with what a kubelet does: settings from the
// ConfigMap, passwords in files, the user, probes, and SIGTERM while requests come, which balancers still send until
// they have seen that the replica is not ready.
func TestKubernetesRunsIt(t *testing.T) {
	t.Parallel()
	var deployment struct {
		Spec struct{ Template struct{ Spec pod } }
	}
	manifest(t, "deployment.yaml", &deployment)
	p := deployment.Spec.Template.Spec
	c := p.Containers[0]
	redis, dir, shop := testenv.Redis(t), t.TempDir(), program(t)
	for _, d := range []string{filepath.Dir(dir), dir, filepath.Dir(shop)} { // for a user who is not the test's
		testkit.Must(t, os.Chmod(d, 0o755))
	}
	for name, value := range map[string]string{"redis": redis.URL, "sql": testenv.MySQL(t), "admin-token": "t0ken"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(value), 0o444))
	}
	address := freeAddress(t)
	env, drain := podSettings(t, dir, address)
	for _, e := range c.Env {
		if e.ValueFrom.FieldRef.FieldPath != "metadata.name" {
			t.Errorf("%s is not the name of the pod", e.Name)
		}
		env = append(env, e.Name+"=lastitem-5d4f8-abcde")
	}

	var log testkit.Log
	cmd := exec.CommandContext(t.Context(), shop, c.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/", &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.Security.User, Gid: p.Security.Group}
	}
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its log is complete
		if t.Failed() {
			t.Log(log.String())
		}
	})
	ask := func(method, path string) (int, error) {
		return onNewConnection(t.Context(), method, "http://"+address+path)
	}
	answers := func(q probe, want int) func() error {
		return func() error {
			if got, err := ask(http.MethodGet, q.Get.Path); err != nil || got != want {
				return fmt.Errorf("GET %s = %d (%w), want %d", q.Get.Path, got, err, want)
			}
			return nil
		}
	}
	testkit.NoError(t, "startup probe", answers(c.StartupProbe, http.StatusOK))
	testkit.NoError(t, "readiness probe", answers(c.ReadinessProbe, http.StatusOK))

	signalled := time.Now()
	testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	testkit.NoError(t, "not ready", answers(c.ReadinessProbe, http.StatusServiceUnavailable))
	// While it drains it serves; a request that is answered after the end of the draining proves nothing.
	for time.Since(signalled) < drain {
		err := answers(c.LivenessProbe, http.StatusOK)()
		got, failed := ask(http.MethodPost, "/deduct_stock/noop?product_id=101")
		if since := time.Since(signalled); since < drain && (err != nil || failed != nil || got >= 500) {
			t.Fatalf("%s after SIGTERM: %v, and a request = %d, %v; want that it is served", since, err, got, failed)
		}
		time.Sleep(50 * time.Millisecond) // the pace of the requests, and no wait for anything
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		testkit.Check(t, err)
	case <-time.After(time.Duration(p.Grace)*time.Second - time.Since(signalled)):
		t.Errorf("the replica has not ended after %d s, when the kubelet kills it", p.Grace)
	}
}

// podSettings are the values of the ConfigMap, with dir in place of the Secret's directory and a loopback address, and
// for how long they let a replica drain.
func podSettings(t *testing.T, dir, address string) (env []string, drain time.Duration) {
	t.Helper()
	var k struct {
		Generators []struct{ Literals []string } `yaml:"configMapGenerator"`
	}
	manifest(t, "kustomization.yaml", &k)
	for _, l := range k.Generators[0].Literals {
		name, value, _ := strings.Cut(l, "=")
		switch name {
		case "SHOP_LISTEN":
			value = address
		case "SHOP_DRAIN":
			var err error
			drain, err = time.ParseDuration(value)
			testkit.Must(t, err)
		}
		env = append(env, name+"="+strings.Replace(value, "/etc/lastitem/", dir+"/", 1))
	}
	return env, drain
}

// freeAddress is an address on loopback on which nothing listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	testkit.Must(t, l.Close())
	return l.Addr().String()
}

// onNewConnection sends a request on a connection of its own, as one that a balancer has just opened.
func onNewConnection(ctx context.Context, method, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
