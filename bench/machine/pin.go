package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// Pin gives a server the first CPU, and this process and its later children the others, as if the server had its own
// machine. Otherwise the kernel often wakes the receiver of an answer on the server's CPU, where both share a core
// while another one is idle. How often that happens is chance, and caused most of the spread between rounds. Pin
// returns a description of what it did.
func Pin(pid int) string {
	last := runtime.NumCPU() - 1
	if last < 1 {
		return "not alone on a CPU: there is one"
	}
	for _, p := range []struct {
		cpus string
		pid  int
	}{{"0", pid}, {fmt.Sprintf("1-%d", last), os.Getpid()}} {
		if out, err := exec.Command("taskset", "-acp", p.cpus, strconv.Itoa(p.pid)).CombinedOutput(); err != nil {
			return fmt.Sprintf("not alone on a CPU: taskset: %v %s", err, out)
		}
	}
	return "alone on CPU 0"
}

// PinServers gives further servers the CPU of the first one, plus one more CPU each, as long as one is left for the
// clients.
func PinServers(pids ...int) {
	last := min(len(pids)-1, runtime.NumCPU()-2)
	for _, pid := range pids {
		if last >= 0 { // without taskset Pin has said so
			_ = exec.Command("taskset", "-acp", fmt.Sprintf("0-%d", last), strconv.Itoa(pid)).Run()
		}
	}
}
