package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/go-sql-driver/mysql"

	"lastitem/stack"
)

// provider is the library of Galera.
const provider = "/usr/lib/galera/libgalera_smm.so"

// GaleraNodes starts two joined nodes of Galera on a stack and returns each with its DSN, of an account that may do
// anything on both. They answer 1047 until they are ready. group is the address of the first node for further members.
func GaleraNodes(ctx context.Context, on *stack.Stack) (nodes []*stack.RunningSQL, dsns []string, group string,
	err error) {
	method, env, err := copying(filepath.Join(on.Dir, "sst"))
	if err != nil {
		return nil, nil, "", err
	}
	var ports [2][3]string // of the group, the copy and the later copy
	for i := range ports {
		for j := range ports[i] {
			if ports[i][j], err = on.FreePort(); err != nil {
				return nil, nil, "", err
			}
		}
	}
	group = "127.0.0.1:" + ports[0][0]
	var first *mysql.Config
	for i, join := range []string{"", group} {
		n, err := on.SpawnSQL(ctx, stack.SQLServer{Name: fmt.Sprintf("galera node %d", i+1), Env: env, Conf: []string{
			"--wsrep-on=ON", "--wsrep-provider=" + provider, "--binlog-format=ROW", "--wsrep-cluster-address=gcomm://" + join,
			"--wsrep-cluster-name=" + watched, "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=" + method,
			"--wsrep-sst-receive-address=127.0.0.1:" + ports[i][1], "--wsrep-provider-options=gmcast.listen_addr=tcp://" +
				"127.0.0.1:" + ports[i][0] + ";ist.recv_addr=tcp://127.0.0.1:" + ports[i][2]}})
		if err != nil {
			return nil, nil, "", err
		}
		own, err := mysql.ParseDSN(n.URL)
		if err != nil {
			return nil, nil, "", err
		}
		if i == 0 {
			first = own
		}
		own.User, own.Passwd = first.User, first.Passwd // the copy has the accounts of the first
		nodes, dsns = append(nodes, n), append(dsns, own.FormatDSN())
	}
	return nodes, dsns, group, nil
}

// copying says how the second node copies the first. As root, the daemon that rsync starts would serve as nobody, so
// scripts in dir make it serve as root.
func copying(dir string) (method string, env []string, err error) {
	if os.Geteuid() != 0 {
		return "rsync", nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	for name, script := range map[string]string{
		"wsrep_sst_root": "PATH=" + dir + ":$PATH exec wsrep_sst_rsync \"$@\"",
		"rsync": "for a; do case $a in */rsync_sst.conf) sed -i '1i uid = 0' \"$a\";; esac; done\n" +
			"PATH=${PATH#*:} exec rsync \"$@\"",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			return "", nil, err
		}
	}
	// The server looks into its own directory first.
	return "root", []string{"PATH=" + os.Getenv("PATH") + ":" + dir}, nil
}

// startGalera makes the victim the first node, which clients reach by a proxy and alone write.
func (e *Engine) startGalera(ctx context.Context) error {
	nodes, dsns, group, err := GaleraNodes(ctx, e.servers)
	if err != nil {
		return err
	}
	e.started("galera node 1", nodes[0].Running)
	e.started("galera node 2", nodes[1].Running)
	second, err := e.open(nodes[1], dsns[1])
	if err != nil {
		return err
	}
	ready := func() bool {
		is, err := second.row(ctx, "SHOW STATUS LIKE 'wsrep_ready'")
		return err == nil && is["Value"] == "ON"
	}
	if err := until(ctx, "the second node of Galera", ready); err != nil {
		return err
	}
	garbd, err := exec.LookPath("garbd")
	if err != nil {
		return err
	}
	_, err = e.servers.Spawn(ctx, stack.Child{Name: "arbitrator",
		Argv: func(addr string) []string {
			return []string{garbd, "--address", "gcomm://" + group, "--group", watched, "--options",
				"gmcast.listen_addr=tcp://" + addr}
		},
		Ready: func(ctx context.Context, _ string) error {
			is, err := second.row(ctx, "SHOW STATUS LIKE 'wsrep_cluster_size'")
			if err == nil && is["Value"] != "3" {
				err = fmt.Errorf("engine: the group has %s members, want 3", is["Value"])
			}
			return err
		}})
	if err != nil {
		return err
	}
	front, err := e.proxy("galera", nodes[0].Addr, 0)
	if err != nil {
		return err
	}
	dsn, err := mysql.ParseDSN(dsns[0])
	if err != nil {
		return err
	}
	dsn.Addr, dsn.Params = front.Addr, map[string]string{"wsrep_sync_wait": "1"}
	e.SQL, e.victim = dsn.FormatDSN(), nodes[0].Running
	e.takeover = func(ctx context.Context) error {
		// While the first node is only suspected, the second one is ready, but commits nothing. The group has two members,
		// itself and the arbitrator, when the first has been given up.
		err := until(ctx, "the second node to be ready without the first", func() bool {
			is, err := second.row(ctx, "SHOW STATUS LIKE 'wsrep_cluster_size'")
			return err == nil && is["Value"] == "2" && ready()
		})
		if err == nil {
			front.Turn(nodes[1].Addr)
		}
		return err
	}
	e.options.Log("galera: MariaDB, two nodes and an arbitrator, wsrep_sync_wait=1")
	return nil
}
