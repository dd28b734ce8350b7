package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Environment is that of an openrc file.
func Environment(a Account) []string {
	return append(os.Environ(),
		"OS_AUTH_URL="+AuthURL, "OS_USERNAME="+a.Name, "OS_PASSWORD="+Password, "OS_PROJECT_NAME="+a.Project,
		"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default", "OS_REGION_NAME="+Region,
		"OS_IDENTITY_API_VERSION=3", "OS_COMPUTE_API_VERSION=2.90",
		"no_proxy=127.0.0.1,localhost", "NO_PROXY=127.0.0.1,localhost", "PYTHONPATH=")
}

// OpenStack runs the real openstack command as the administrator; out gets its JSON, nil for commands without output.
func (l *Lab) OpenStack(ctx context.Context, out any, args ...string) error {
	if out != nil {
		args = append(args, "-f", "json")
	}
	text, err := l.python(ctx, "/usr/bin/openstack", args...)
	if err != nil {
		return fmt.Errorf("openstack %s: %w", strings.Join(args, " "), err)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// sdkGet is a GET through the real openstacksdk, for what the openstack command cannot show.
const sdkGet = `
import json, sys, openstack
answer = openstack.connect().instance_ha.get(sys.argv[1], microversion=sys.argv[2])
answer.raise_for_status()
print(json.dumps(answer.json()))
`

// SDKGet reads a path of the instance-ha API with the real openstacksdk.
func (l *Lab) SDKGet(ctx context.Context, out any, path, microversion string) error {
	text, err := l.python(ctx, "-c", sdkGet, path, microversion)
	if err != nil {
		return fmt.Errorf("openstacksdk, GET %s: %w", path, err)
	}
	return json.Unmarshal(text, out)
}

// python runs Debian's interpreter, whatever python3 is first in PATH.
func (l *Lab) python(ctx context.Context, script string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", append([]string{script}, args...)...)
	cmd.Env = Environment(Account{Name: "admin", Project: "admin"})
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
