package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// log returns the path of a node's append-only file.
func (n *node) log() (string, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("faultlab: %d append-only files of %s, want one", len(files), n.child.Name)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// Logged waits until the append-only file of one of the lane's own servers contains every command that was answered, and returns its length in
// bytes.
// Redis writes a command to the file before it answers, except while an fsync is under way: then it keeps the command in a buffer.
func (o *Own) Logged(ctx context.Context, server string) (int64, error) {
	n, err := o.find(server)
	if err != nil {
		return 0, err
	}
	file, err := n.log()
	if err != nil {
		return 0, err
	}
	written := func() bool {
		buffered, err := n.field(ctx, "persistence", "aof_buffer_length")
		return err == nil && buffered == "0"
	}
	if err := until(ctx, "the append-only file of "+server, written); err != nil {
		return 0, err
	}
	about, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return about.Size(), nil
}

// RestartFrom kills one of the lane's own servers, truncates its append-only file to length bytes, and restarts it.
func (o *Own) RestartFrom(ctx context.Context, server string, length int64) error {
	n, err := o.find(server)
	if err != nil {
		return err
	}
	n.run.Kill()
	o.lane.warm = ""
	file, err := n.log()
	if err != nil {
		return err
	}
	if err := os.Truncate(file, length); err != nil {
		return err
	}
	return o.startAgain(ctx, n)
}
