package clients

import (
	_ "embed"
	"path/filepath"
	"testing"
)

//go:embed testdata/sdk.py
var sdkScript string

// openstacksdk's instance_ha: each verb, pages, finding, waiting, errors, and a host's recovery as it sees it.
func TestOpenStackSDK(t *testing.T) {
	needs(t, "openstack.instance_ha.v1._proxy", "python3-openstacksdk")
	l := open(t, "sqlite:///"+filepath.Join(t.TempDir(), "salvor.sqlite"))
	l.lose("host-1")
	if out, errs, code := l.run("admin", "", interpreter, "-c", sdkScript); code != 0 || out != "all of it\n" {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
