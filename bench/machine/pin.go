package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// Pin gives a server the first CPU, and this process, with all that it starts from now on, the others: as if the server had a
// machine of its own. Otherwise the kernel wakes whoever gets an answer on the CPU of the server that wrote it, where both
// share a core and another one idles. How often is luck, and that luck, not the lock, was most of the spread between rounds.
// It says what it did.
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

// PinServers lets more servers run where Pin lets the first one, and on one CPU more for each, as long as one is left for the clients.
func PinServers(pids ...int) {
	last := min(len(pids)-1, runtime.NumCPU()-2)
	for _, pid := range pids {
		if last >= 0 { // without taskset Pin has said so
			_ = exec.Command("taskset", "-acp", fmt.Sprintf("0-%d", last), strconv.Itoa(pid)).Run()
		}
	}
}
