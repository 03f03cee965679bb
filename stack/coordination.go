package stack

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lastitem/say/text"
)

// etcdServer is one etcd node that does not wait for the disk. The election time-out, which bounds the shortest lease
// from below (1.5 times, in whole seconds), is half the default: a lease of one second is possible.
func etcdServer(path string, o *Options) server {
	number, _ := version(path, "--version")
	return server{
		name: Etcd,
		kind: "etcd " + number + " (private)",
		url:  overHTTP,
		setup: func(at site) ([]string, error) {
			peer, err := at.more()
			return append([]string{
				path, "--name=lastitem", "--data-dir=" + at.file("etcd"), "--logger=zap",
				"--listen-client-urls=http://" + at.addr, "--advertise-client-urls=http://" + at.addr,
				"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer,
				"--initial-cluster=lastitem=http://" + peer,
				"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
				"--heartbeat-interval=50", "--election-timeout=500", "--unsafe-no-fsync",
			}, o.EtcdArgs...), err
		},
		ready: func(ctx context.Context, addr string) error { return answers200(ctx, addr, "/health") },
	}
}

// zooKeeperMain is the class of a server without peers.
const zooKeeperMain = "org.apache.zookeeper.server.ZooKeeperServerMain"

// zooKeeperServer is one ZooKeeper node, started as Debian's packages lay it out, in a small Java machine. A tick of
// 100 ms allows sessions of 200 ms; the default of two seconds would make every session test wait for four.
func zooKeeperServer(java string, _ *Options) server {
	jar := debianZooKeeper()
	kind := "ZooKeeper (private)"
	if named, err := filepath.Glob(strings.TrimSuffix(jar, ".jar") + "-[0-9]*.jar"); err == nil && len(named) > 0 {
		kind = "ZooKeeper " + versionNumber.FindString(filepath.Base(named[0])) + " (private)"
	}
	return server{
		name: ZooKeeper,
		kind: kind,
		url:  bare,
		setup: func(at site) ([]string, error) {
			file := at.file("zookeeper.cfg")
			conf := fmt.Sprintf("dataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=%s\ntickTime=100\nminSessionTimeout=200\n"+
				"maxSessionTimeout=60000\nmaxClientCnxns=0\nforceSync=no\nadmin.enableServer=false\n",
				at.file("zookeeper"), at.port())
			return []string{
				java, "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.io.tmpdir=" + at.dir,
				"-cp", jar, zooKeeperMain, file,
			}, os.WriteFile(file, []byte(conf), 0o600)
		},
		ready: zooKeeperSession,
	}
}

// zooKeeperSession asks for a session, which ends by itself. A server that says imok may be about to start: a client
// that asks for a session then may get no answer, and waits for it for ten times the session's time-out.
func zooKeeperSession(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	const number, timeout = 12, 200               // where the answer has the session's number; in milliseconds
	ask := binary.BigEndian.AppendUint32(nil, 44) // the length of the rest
	ask = append(ask, make([]byte, 12)...)        // protocol, last transaction seen
	ask = binary.BigEndian.AppendUint32(ask, timeout)
	ask = append(ask, make([]byte, 8)...) // no session yet
	ask = binary.BigEndian.AppendUint32(ask, 16)
	ask = append(ask, make([]byte, 16)...) // its password
	return answers(ctx, addr, string(ask), func(answer []byte) bool {
		return len(answer) >= number+8 && binary.BigEndian.Uint64(answer[number:]) != 0
	})
}

// consulAgent is one Consul agent in development mode: a server of its own that keeps everything in memory. It takes
// sessions of a second, where by default ten is the least: a test of a session that ends would wait for twenty.
func consulAgent(path string, _ *Options) server {
	number, _ := version(path, "version")
	return server{
		name:  Consul,
		kind:  "Consul " + number + " (private)",
		loses: text.Of("its sessions and keys were in memory"),
		url:   overHTTP,
		setup: func(at site) (argv []string, err error) {
			argv = []string{
				path, "agent", "-dev", "-bind=127.0.0.1", "-client=127.0.0.1", "-node=lastitem", "-disable-host-node-id",
				"-data-dir=" + at.file("consul"), "-http-port=" + at.port(), "-dns-port=-1", "-grpc-port=-1", "-log-level=warn",
				`-hcl=session_ttl_min="1s"`,
			}
			if atLeast(number, 1, 14) { // earlier ones refuse the word; these would all listen on port 8503
				argv = append(argv, "-hcl=ports { grpc_tls = -1 }")
			}
			for _, port := range []string{"-server-port=", "-serf-lan-port=", "-serf-wan-port="} {
				other, portErr := at.more()
				err = errors.Join(err, portErr)
				argv = append(argv, port+other[strings.LastIndex(other, ":")+1:])
			}
			return argv, err
		},
		ready: consulRegistered,
	}
}

// consulRegistered waits until the agent's node is in the catalog: the election comes first, without which nothing can
// be written, and a little later the registration, without which there are no sessions ("Missing node registration").
func consulRegistered(ctx context.Context, addr string) error {
	found, err := get(ctx, addr, "/v1/catalog/nodes?consistent") // 500: there is no leader yet
	if err != nil {
		return err
	}
	var nodes []struct{ Node string }
	if err := json.Unmarshal(found, &nodes); err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("the node is not registered yet")
	}
	return nil
}
