package cli

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// called runs the binary as it is when called by another name.
func called(t *testing.T, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = Main(t.Context(), Env{Program: name, Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

// TestMasakarisCommands: called by their names, salvor has their options, words and exit codes (contract section 11).
func TestMasakarisCommands(t *testing.T) {
	file := conf(t, "")
	if code, stdout, stderr := called(t, "masakari-manage", "--config-file", file, "db", "version"); code != 1 || !strings.Contains(stdout, "no database yet") {
		t.Errorf("db version without a database: %d\n%s%s", code, stdout, stderr)
	}
	sqlite := filepath.Join(filepath.Dir(file), "state", "masakari.sqlite")
	if _, err := os.Stat(sqlite); err == nil {
		t.Error("db version made a database")
	}
	if code, stdout, stderr := called(t, "masakari-manage", "--config-file="+file, "db", "sync", "7"); code != 0 || stdout != "" {
		t.Errorf("db sync: %d\n%s%s", code, stdout, stderr)
	}
	tests := []struct {
		name, args string
		code       int
		stdout     string // whole, when it ends in a line end; else a part
		stderr     string // a part
	}{
		{"masakari-manage", "", 2, "\nOpenStack masakari version: dev\n\nmasakari-manage category action [<args>]\nAvailable categories:\n\tdb\n", ""},
		{"masakari-manage", "--version", 0, "dev\n", ""},
		{"masakari-manage", "--config-file /nowhere db version", 2, "Failed to read configuration file(s): /nowhere\n", ""},
		{"masakari-manage", "--config-dir /nowhere db version", 2, "Invalid directory: ", ""},
		{"masakari-manage", "db", 2, "", "usage: masakari-manage"},
		{"masakari-manage", "db frob", 2, "", "invalid choice: 'frob'"},
		{"masakari-manage", "--config-file FILE db purge", 0, "", ""},
		{"masakari-manage", "--config-file FILE db purge --age_in_days 1 --max_rows=5", 0, "", ""},
		{"masakari-manage", "--config-file FILE db purge --max_rows 0", 1, "", "Must supply value greater than 0 for max_rows.\n"},
		{"masakari-manage", "--config-file FILE db purge --max_rows -2", 1, "", "Invalid input received: max_rows must be >= -1\n"},
		{"masakari-manage", "--config-file FILE db purge --age_in_days -1", 1, "", "Must supply a non-negative value for age.\n"},
		{"masakari-manage", "--config-file FILE db purge --age_in_days 99999", 1, "", "Maximal age is count of days since epoch.\n"},
		{"masakari-manage", "--config-file FILE db purge --age_in_days x", 2, "", "argument --age_in_days: invalid int value: 'x'"},
		{"masakari-manage", "--config-file FILE db purge --age 1 --max=5", 0, "", ""},
		{"masakari-manage", "--config-file FILE db purge 90", 2, "", "unrecognized arguments: 90"},
		{"masakari-manage", "--config-file FILE db version --max_rows 5", 2, "", "unrecognized arguments: --max_rows"},
		{"masakari-manage", "--config-file FILE db sync latest", 2, "", "argument version: invalid int value: 'latest'"},
		{"masakari-manage", "--config FILE db version", 2, "", "ambiguous option: --config could match --config-dir, --config-file"},
		{"masakari-manage", "--config-file FILE --log_config /etc/masakari/logging.conf --watch-log-file --log-date-format %Y db sync", 0, "", ""},
		{"masakari-status", "--config-file FILE upgrade check more", 2, "", "unrecognized arguments: more"},
		{"masakari-status", "", 2, "", "required: command"},
		{"masakari-status", "upgrade", 2, "", "required: check"},
		{"masakari-status", "--config-file FILE upgrade check", 0, "| Check: Policy File JSON to YAML Migration |\n| Result: Success                           |\n| Details: None                             |", ""},
		{"masakari-status", "--config-file FILE upgrade check --json", 0, `{"name":"Upgrade Check Results","checks":[{"check":"Policy File JSON to YAML Migration","result":0,"details":null}`, ""},
		{"masakari-api", "--version", 0, "dev\n", ""},
		{"masakari-engine", "--frob", 2, "", "unrecognized arguments: --frob"},
		{"masakari-engine", "--config-file FILE --log-file", 2, "", "argument --log-file: expected one argument"},
		{"masakari-engine", "--config-file=FILE --debug --log-dir /nowhere/at/all", 1, "", "/nowhere/at/all"},
		{"masakari-engine", "--config-file FILE", 1, "", "os_privileged_user_auth_url"},
	}
	for _, tt := range tests {
		code, stdout, stderr := called(t, tt.name, strings.Fields(strings.ReplaceAll(tt.args, "FILE", file))...)
		whole := tt.stdout == "" || strings.HasSuffix(tt.stdout, "\n")
		if code != tt.code || whole && stdout != tt.stdout || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s %s: exit code %d, want %d\n%s---\n%s", tt.name, tt.args, code, tt.code, stdout, stderr)
		}
	}
	if code, stdout, _ := called(t, "masakari-manage", "--config-file", file, "db", "version"); code != 0 || len(strings.TrimSpace(stdout)) != 4 {
		t.Errorf("db version: %d, %q", code, stdout)
	}
}

// TestTheLaterOptionWins: of --config-file and --config-dir, as with oslo.config.
func TestTheLaterOptionWins(t *testing.T) {
	dir, file := t.TempDir(), conf(t, "")
	if err := os.WriteFile(filepath.Join(dir, "a.conf"), []byte("[DEFAULT]\nstate_path = "+dir+"/state\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"--config-dir DIR --config-file FILE", filepath.Dir(file)}, {"--config-file FILE --config-dir DIR", dir},
		{"--config-file FILE --config-dir DIR --config-file FILE", filepath.Dir(file)},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "FILE", file).Replace(tt.args))
		if _, stdout, _ := called(t, "masakari-manage", append(args, "db", "version")...); !strings.Contains(stdout, tt.want+"/state") {
			t.Errorf("db version %s: %s", tt.args, stdout)
		}
		if _, stdout, _ := called(t, "masakari-status", append(args, "upgrade", "check", "--json")...); !strings.Contains(stdout, tt.want+"/state") {
			t.Errorf("upgrade check %s: %s", tt.args, stdout)
		}
	}
}

// TestUpgradeCheck: what is in disorder is named, and weighs as its kind does.
func TestUpgradeCheck(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.json")
	if err := os.WriteFile(policy, []byte(`{"admin_api": "role:admin"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	synced := func(text string) string {
		file := conf(t, text)
		if code, _, stderr := command(t, nil, "db", "sync", "--config-file", file); code != 0 {
			t.Fatal(stderr)
		}
		return file
	}
	rules := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return synced("[oslo_policy]\npolicy_file = " + file + "\n")
	}
	broken := rules("broken.yaml", `"os_masakari_api:segments:index": "role:a and ("`)
	away := conf(t, "[database]\nconnection = mysql+pymysql://salvor@127.0.0.1:1/salvor\nmax_retries = 1\nretry_interval = 0\n")
	newer := synced("")
	execute(t, newer, "INSERT INTO salvor_migrations (name, group_id) VALUES ('9999', 99)")
	for _, tt := range []struct {
		file string
		code int
		want string
	}{
		{newer, 1, "version 9999 is newer than this salvor"},
		{conf(t, ""), 2, "there is no database yet"},
		{synced("[salvor]\nbrake_prcent = 3\n"), 1, "brake_percent"},
		{synced("[oslo_policy]\npolicy_file = " + policy + "\n"), 2, "JSON-formatted"},
		{broken, 2, "os_masakari_api:segments:index: it ends where"}, // the api does not start with it
		{rules("misspelled.yaml", `"os_masakari_api:segments:indx": "role:a"`), 1, "is its name misspelled?"},
		{synced("[oslo_policy]\npolicy_file = /nowhere/policy.yaml\n"), 1, "/nowhere/policy.yaml is not found"},
		{away, 2, "the database does not answer, trying again"},
		{away, 2, "Details: Not looked at"}, // no engine was seen, which is no success
		{conf(t, "[salvor]\nbrake_percent = 300\n"), 255, "brake_percent"},
	} {
		code, stdout, stderr := command(t, nil, "status", "upgrade", "check", "--config-file", tt.file)
		unwrapped := strings.Join(strings.Fields(strings.ReplaceAll(stdout+stderr, "|", "")), " ")
		if code != tt.code || !strings.Contains(unwrapped, tt.want) {
			t.Errorf("exit code %d, want %d and %q\n%s%s", code, tt.code, tt.want, stdout, stderr)
		}
	}
}

// execute changes the embedded database of a configuration made by conf.
func execute(t *testing.T, file, statement string) {
	t.Helper()
	raw, err := sql.Open("sqlite", filepath.Join(filepath.Dir(file), "state", "masakari.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestImportNeedsAnURL(t *testing.T) {
	if code, _, stderr := command(t, nil, "db", "import-masakari"); code != 2 || !strings.Contains(stderr, "--from is missing") {
		t.Errorf("%d %s", code, stderr)
	}
}
