package compare

import (
	"bufio"
	"os"
	"runtime"
	"strings"
	"time"
)

// Environment describes where a number was measured.
type Environment struct {
	Time       time.Time `json:"time"`
	Go         string    `json:"go"`
	OS         string    `json:"os"`
	Arch       string    `json:"arch"`
	CPU        string    `json:"cpu,omitempty"` // model name; "" = not known
	CPUs       int       `json:"cpus"`
	GOMAXPROCS int       `json:"gomaxprocs"`
	Version    string    `json:"version"` // the commit of lastitem, as the caller knows it
	Engine     string    `json:"engine"`
	// Replicas is how many processes served: as given by the caller, else as X-Replica showed.
	Replicas int `json:"replicas"`
	// RTT is the round trip added between the replicas and their servers, in nanoseconds in JSON; 0 = none.
	RTT time.Duration `json:"rtt,omitempty"`
	// Servers are the kinds and versions of the servers by their names, as in "redis": "redis-server 7.0.15"; nil = not
	// known.
	Servers map[string]string `json:"servers,omitempty"`
}

// ThisEnvironment describes this process and its machine; the caller fills in Version, Engine and Replicas.
func ThisEnvironment() Environment {
	return Environment{
		Time: time.Now(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: cpuModel("/proc/cpuinfo"), CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
	}
}

// cpuModel reads the model name from a file like Linux's /proc/cpuinfo; "" if there is none.
func cpuModel(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
