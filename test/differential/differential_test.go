package differential

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// In CI: seeds of so many requests each, and no more of them than go into the time.
const (
	ciSeeds  = 12
	requests = 200
	ciTime   = 25 * time.Second
	shown    = 12 // differences in full; SHOW: another number
)

// TestTheSameAnswers: whatever Debian's Masakari and salvor are asked, they answer the same, but for what the table allows.
func TestTheSameAnswers(t *testing.T) {
	from, to, within := uint64(1), uint64(ciSeeds), ciTime
	if n := number("SEEDS", 0); n > 0 {
		to, within = uint64(n), 24*time.Hour
	}
	if n := number("SEED", 0); n > 0 {
		from, to, within = uint64(n), uint64(n), 24*time.Hour
	}
	from = uint64(number("FROM", int(from)))
	masakari, salvor := start(t)
	p := newPair(t, masakari, salvor)
	began := time.Now()
	for seed := from; seed <= to && time.Since(began) < within; seed++ {
		p.sequence(seed)
	}
	for way, n := range p.ways {
		t.Logf("%4d × %s", n, way)
	}
	t.Logf("%d requests of %d seeds in %s: %d differ in %d ways; allowed: %v", p.asked, p.seeds, time.Since(began).Round(time.Second), p.differ, len(p.ways), p.allowed)
	for _, d := range differences {
		if p.allowed[d.name] == 0 && p.asked > 20000 {
			t.Errorf("nothing was allowed by %q: take it away", d.name)
		}
	}
}

// number is a number of the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// pair is both servers at one sequence.
type pair struct {
	*testing.T
	masakari, salvor server
	rows             rows
	clients          [2]*http.Client // Masakari's and salvor's

	seed    uint64
	world   *world
	ids     [2]map[string]string // uuid: the integer id on each
	asked   int
	seeds   int
	differ  int
	ways    map[string]int
	allowed map[string]int
}

func newPair(t *testing.T, masakari, salvor server) *pair {
	p := &pair{T: t, masakari: masakari, salvor: salvor, ways: map[string]int{}, allowed: map[string]int{}}
	p.rows = rows{t: t, masakari: masakari.db, salvor: salvor.db}
	p.rows.words()
	for i, transport := range []http.RoundTripper{&http.Transport{}, &http.Transport{}} {
		p.clients[i] = &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return p
}

// sequence asks both the requests of a seed.
func (p *pair) sequence(seed uint64) {
	p.Helper()
	p.rows.clear()
	p.seeds++
	p.seed, p.world = seed, &world{source: newSource(seed), now: 1000}
	p.ids = [2]map[string]string{{}, {}}
	for range requests {
		p.step(p.world.next())
	}
}

// exchange is a request and both answers; want is Masakari's as the table makes it.
type exchange struct {
	request
	world     *world
	want, got answer
	follow    bool // Masakari's rows are to be made salvor's
	applied   []string
}

func (p *pair) step(r request) {
	p.Helper()
	p.asked++
	x := &exchange{request: r, world: p.world}
	theirs, ours := p.ask(r)
	kind, made := created(r, ours)
	_, madeToo := created(r, theirs)
	if made != "" && madeToo != "" {
		p.rows.rename(kind, madeToo, made)
		theirs.value = replaced(theirs.value, madeToo, made)
		theirs.text = strings.ReplaceAll(theirs.text, madeToo, made)
	}
	for i, a := range []answer{theirs, ours} {
		if err := learn(a.value, p.ids[i]); err != nil {
			p.Errorf("seed %d: %v\n%v", p.seed, err, r)
		}
	}
	now := time.Now().UTC()
	x.want, x.got = theirs, ours
	x.want.value, x.got.value = plain(theirs.value, now), plain(ours.value, now)
	for _, d := range differences {
		if !equal(x.want, x.got) && d.when(x) {
			before := x.want.String()
			d.want(x)
			if x.want.String() != before {
				p.allowed[d.name]++
				x.applied = append(x.applied, d.name)
			}
		}
	}
	if os.Getenv("SEED") != "" {
		p.Logf("%v\nMasakari: %v\nsalvor: %v", r, theirs, ours)
	}
	if !equal(x.want, x.got) {
		p.differ++
		x.follow = true
		way := fmt.Sprintf("%s %d %d %s | %s", r.what, theirs.status, ours.status, vague(x.want.fault()), vague(x.got.fault()))
		if p.ways[way]++; p.ways[way] == 1 && len(p.ways) <= number("SHOW", shown) {
			p.Errorf("seed %d, request %d: %v\nMasakari: %v\nsalvor: %v\nMasakari's answer, with %q (-), and salvor's (+):\n%s", p.seed, p.asked, r, theirs, ours, x.applied,
				cmp.Diff(map[string]any{"status": x.want.status, "headers": x.want.headers, "body": bodyOf(x.want)}, map[string]any{"status": x.got.status, "headers": x.got.headers, "body": bodyOf(x.got)}))
		} else {
			p.Fail()
		}
	}
	p.settle(x, theirs, ours)
}

// ask sends both the same, at the same time.
func (p *pair) ask(r request) (theirs, ours answer) {
	p.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		theirs, err = send(p.Context(), p.clients[0], p.masakari, p.original(r), p.ids[0])
		done <- err
	}()
	ours, err := send(p.Context(), p.clients[1], p.salvor, r, p.ids[1])
	if err := <-done; err != nil {
		p.Fatalf("seed %d: Masakari: %v\n%v", p.seed, err, r)
	}
	if err != nil {
		p.Fatalf("seed %d: salvor: %v\n%v", p.seed, err, r)
	}
	return theirs, ours
}

func equal(a, b answer) bool {
	return a.status == b.status && cmp.Equal(a.headers, b.headers) && cmp.Equal(bodyOf(a), bodyOf(b))
}

// bodyOf is what is compared of a body.
func bodyOf(a answer) any {
	if a.value != nil {
		return a.value
	}
	return a.text
}

var someID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|'[^']*'|"[^"]*"`)

// vague is a text without what differs from request to request.
func vague(text string) string {
	text = someID.ReplaceAllString(text, "…")
	return text[:min(len(text), 120)]
}

// created returns what a request made: its kind, and its uuid, "" when it made nothing.
func created(r request, a answer) (kind, uuid string) {
	if r.method != "POST" || a.status != 201 && a.status != 202 {
		return "", ""
	}
	kind, value := a.object()
	object, _ := value.(map[string]any)
	if _, known := tables[kind]; !known {
		return "", ""
	}
	return kind, uuidOf(object)
}

// replaced is a JSON value with one text in the place of another.
func replaced(v any, from, to string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, e := range v {
			out[key] = replaced(e, from, to)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaced(v[i], from, to)
		}
		return out
	case string:
		if v == from {
			return to
		}
	}
	return v
}

var slashes = regexp.MustCompile(`//+`)

// settle keeps the world in step with what has happened, and both databases with each other.
func (p *pair) settle(x *exchange, theirs, ours answer) {
	p.Helper()
	if x.method != "POST" && x.method != "PUT" && x.method != "DELETE" || theirs.status >= 300 && ours.status >= 300 {
		return
	}
	kind, made := created(x.request, ours)
	if kind2, madeToo := created(x.request, theirs); made == "" && madeToo != "" {
		p.rows.follow(kind2, madeToo) // takes it away
	}
	if made != "" {
		if x.follow {
			p.rows.follow(kind, made)
		}
		p.remember(kind, made, ours, reportOf(x.body))
	} else if m := aMember.FindStringSubmatch(slashes.ReplaceAllString(x.route(), "/")); m != nil {
		kind, uuid := m[1]+m[2]+m[3], strings.ToLower(m[4])
		if x.follow {
			p.rows.follow(kind, uuid)
		}
		if ours.status < 300 {
			p.changed(kind, uuid, x.method, ours)
		}
	}
	p.rows.stamp(p.world.IntN(2))
}

// remember adds what was made to the world. Most notifications soon have another status.
func (p *pair) remember(kind, uuid string, a answer, r report) {
	p.Helper()
	_, value := a.object()
	object := value.(map[string]any)
	text := func(key string) string { s, _ := object[key].(string); return s }
	thing := &thing{uuid: uuid, name: text("name"), segment: text("failover_segment_id"), host: text("source_host_uuid"), open: true, report: r}
	switch kind {
	case "segment":
		p.world.segments = append(p.world.segments, thing)
	case "host":
		p.world.hosts = append(p.world.hosts, thing)
	default:
		p.world.notifications = append(p.world.notifications, thing)
		if status := pick(p.world.source, "", "running", "error", "finished", "finished", "finished", "failed", "ignored", "finished", "failed", "ignored"); status != "" {
			p.rows.end(uuid, status)
			thing.open = status == "running" || status == "error"
		}
	}
}

// changed is what a PUT or DELETE did.
func (p *pair) changed(kind, uuid, method string, a answer) {
	of := p.world.segments
	if kind == "host" {
		of = p.world.hosts
	}
	for _, t := range of {
		if t.uuid != uuid {
			continue
		}
		if method == "DELETE" {
			t.gone = true
		} else if _, value := a.object(); value != nil {
			t.name, _ = value.(map[string]any)["name"].(string)
		}
	}
	if kind == "segment" && method == "DELETE" {
		for _, h := range p.world.hosts {
			h.gone = h.gone || h.segment == uuid
		}
	}
}
