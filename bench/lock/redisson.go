package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const redissonName = "redisson"

// redissonWorker returns the command line of the Java worker that Maven has built in a directory. The error says what
// is missing and how to get it.
func redissonWorker(dir string) ([]string, error) {
	if dir == "" {
		return nil, errors.New("--redisson names no directory; 'make bench-lock' builds the worker and gives it")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, fmt.Errorf("%w; to install it: apt-get install default-jdk-headless maven", err)
	}
	built, jars := filepath.Join(dir, "target", "classes"), filepath.Join(dir, "target", "lib")
	for _, path := range []string{filepath.Join(built, "bench", "Worker.class"), jars} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w; to build it: mvn -f %s package", err, filepath.Join(dir, "pom.xml"))
		}
	}
	// A heap that no window fills, and a collector without threads of its own beside four such processes on two CPUs.
	return []string{java, "-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-cp",
		built + string(os.PathListSeparator) + filepath.Join(jars, "*"), "bench.Worker"}, nil
}

// redissonVersion returns the version in the name of the library's jar on the worker's command line; "" = none.
func redissonVersion(worker []string) string {
	if len(worker) < 2 {
		return ""
	}
	_, jars, _ := strings.Cut(worker[len(worker)-2], string(os.PathListSeparator))
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(jars), redissonName+"-[0-9]*.jar"))
	if len(found) != 1 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), redissonName+"-"), ".jar")
}

// program returns the worker of a contender; nil = this program.
func (b *bench) program(c contender) []string {
	if c.name == redissonName {
		return b.redisson
	}
	return nil
}
