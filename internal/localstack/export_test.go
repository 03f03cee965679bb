package localstack

import (
	"os"
	"path/filepath"
)

// NginxCheck writes the private nginx's configuration into dir and returns the command that checks it.
func NginxCheck(path, dir string) (argv []string, err error) {
	conf, err := renderNginx(edge{listen: "127.0.0.1:20000", targets: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		return nil, err
	}
	number, _ := version(path, "-v")
	return append(nginxArgv(path, number, dir, file), "-t"), nil
}
