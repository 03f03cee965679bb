package machine

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
)

// Pin keeps a server on the first CPU. Unpinned, the kernel wakes a process that a lock is handed to on the CPU of the server
// that told it so, where both then share a core and the other one idles: for how long is luck, and that luck, not the
// lock, was most of the spread between rounds. It says what it did.
func Pin(pid int) string {
	if runtime.NumCPU() < 2 {
		return "not pinned: one CPU"
	}
	if out, err := exec.Command("taskset", "-acp", "0", strconv.Itoa(pid)).CombinedOutput(); err != nil {
		return fmt.Sprintf("not pinned: taskset: %v %s", err, out)
	}
	return "pinned to CPU 0"
}
