package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const hush = "hunter2"

// TestSecretsNeverLeak prints whole configurations in every way that somebody might.
func TestSecretsNeverLeak(t *testing.T) {
	text := `[DEFAULT]
os_privileged_user_password = ` + hush + `
transport_url = rabbit://salvor:` + hush + `@mq-1:5672,salvor:` + hush + `@mq-2:5672/vhost
[database]
connection = mysql+pymysql://masakari:` + hush + `@db.example.com/masakari?charset=utf8&password=` + hush + `
[keystone_authtoken]
password = ` + hush + `
memcache_secret_key = ` + hush + `
[coordination]
backend_url = etcd3://` + hush + `@h
[salvor]
webhook_url = https://hook.example.com/?key=` + hush + `
trace_url = https://salvor:` + hush + `@traces.example.com/v1/traces?token=` + hush + `
webhook_secret = ` + hush + "\n"
	c := mustLoad(t, text)
	var out bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, format+"\n", c.Nova)
		fmt.Fprintf(&out, format+"\n", c.Nova.Password)
		fmt.Fprintf(&out, format+"\n", &c.Database)
		fmt.Fprintf(&out, format+"\n", struct{ inner Secret }{c.Nova.Password}) // fmt calls no methods in here
	}
	fmt.Fprintf(&out, "%+v\n", c.Effective())
	encoded, err := json.Marshal(struct {
		Nova, Database, Notifications, Keystone any
		Effective                               []Setting
	}{c.Nova, c.Database, c.Notifications, c.Keystone, c.Effective()})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", c.Nova.Password, "all", c.Nova)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", c.Nova.Password, "all", c.Nova)
	hex := fmt.Sprintf("%x", hush)
	if s := out.String(); strings.Contains(s, hush) || strings.Contains(s, hex) {
		t.Errorf("leaked:\n%s", s)
	}
	if c.Nova.Password.Reveal() != hush {
		t.Error("Reveal does not")
	}
	for _, want := range []string{"mysql+pymysql://***@db.example.com/masakari?***", "rabbit://***@mq-2:5672/vhost"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is what an operator needs to see", want)
		}
	}
}

func TestSecretsNeverLeakInErrors(t *testing.T) {
	for _, text := range []string{
		"[DEFAULT]\nos_privileged_user_password = pa$" + hush + "\n",
		"[DEFAULT]\nos_privileged_user_password = pa$" + hush + "\nlog_dir = $os_privileged_user_password\n",
		"[DEFAULT]\nos_privileged_user_password = x\n" + hush + "\n",
	} {
		_, _, err := loadText(t, text)
		if err == nil || strings.Contains(err.Error(), hush) {
			t.Errorf("%v", err)
		}
	}
	for _, bad := range []string{"nosql://u:" + hush + "@h/d", "mysql://u:" + hush + "@h/", "mysql://u:" + hush + "@h:x/d",
		"mysql:u:" + hush, "mysql://u:" + hush + "/d", "postgresql://u:" + hush + "@h/d?%zz"} {
		_, err := ParseDatabaseURL(NewSecret(bad))
		_, err2 := ParseTransportURL(NewSecret(strings.Replace(bad, "mysql", "rabbit", 1)))
		if err == nil || strings.Contains(errors.Join(err, err2).Error(), hush) {
			t.Errorf("%v %v", err, err2)
		}
	}
}

func TestSecretEquality(t *testing.T) {
	if !NewSecret("a").Equal(NewSecret("a")) || NewSecret("a").Equal(NewSecret("b")) || !NewSecret("").IsZero() {
		t.Error("Equal or IsZero is wrong")
	}
}
