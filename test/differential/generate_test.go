package differential

import (
	"net/url"
	"slices"
	"strings"
)

// thing is an object that exists on both servers, or did.
type thing struct {
	uuid    string
	name    string
	segment string // of a host
	host    string // of a notification
	open    bool   // a notification that is new, running or in error
	report  report
	gone    bool
}

// world is what a sequence has made so far.
type world struct {
	source
	segments, hosts, notifications []*thing
	now                            int    // the second of the calendar that monitors think it is
	last                           []byte // the last report that was sent
}

const (
	nowhere = "0f0e0d0c-0b0a-4908-8706-050403020100"
	project = "0123456789abcdef0123456789abcdef"
)

// one is an existing object's uuid, once in a while that of a deleted one or of none.
func (w *world) one(of []*thing) string {
	live := slices.DeleteFunc(slices.Clone(of), func(t *thing) bool { return t.gone })
	if len(live) == 0 || w.chance(15) {
		any := []string{nowhere, "1", "x", "new", strings.ToUpper(nowhere), "0f0e0d0c0b0a49088706050403020100", "%7B" + nowhere + "%7D", "urn:uuid:" + nowhere, "%C3%A4", "a%20b", "edit", "%00", "%27", "..", "rack-1", long(300), "a.json", ".json", "%2e"}
		for _, t := range of {
			any = append(any, t.uuid, t.uuid)
		}
		return pick(w.source, any...)
	}
	uuid := live[w.IntN(len(live))].uuid
	if w.chance(25) {
		return strings.ToUpper(uuid)
	}
	return uuid
}

func (w *world) host() *thing {
	live := slices.DeleteFunc(slices.Clone(w.hosts), func(t *thing) bool { return t.gone })
	if len(live) == 0 {
		return &thing{uuid: nowhere, segment: nowhere, name: "nobody"}
	}
	return live[w.IntN(len(live))]
}

// next is the next request of the sequence.
func (w *world) next() request {
	r := w.plain()
	w.dress(&r)
	return r
}

// plain is a request that most often makes sense.
func (w *world) plain() request {
	kinds := []struct {
		weight int
		make   func() request
	}{
		{9, w.createSegment}, {6, w.updateSegment}, {3, w.deleteSegment}, {4, w.showSegment}, {8, w.listSegments},
		{12, w.createHost}, {8, w.updateHost}, {4, w.deleteHost}, {4, w.showHost}, {8, w.listHosts},
		{18, w.report}, {5, w.showNotification}, {10, w.listNotifications},
		{2, w.vmoves}, {3, w.discovery}, {3, w.extensions}, {5, w.anywhere},
	}
	if len(w.segments) < 2 {
		return w.createSegment()
	}
	if len(w.hosts) < 3 && w.chance(2) {
		return w.createHost()
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n, i := w.IntN(sum), 0
	for ; n >= kinds[i].weight; i++ {
		n -= kinds[i].weight
	}
	return kinds[i].make()
}

// dress adds headers, and at times another method or path.
func (w *world) dress(r *request) {
	if w.chance(60) {
		r.what += ", by another method"
		r.method = pick(w.source, "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "FOO")
	}
	path, query, asked := strings.Cut(r.path, "?")
	if rest, ok := strings.CutPrefix(path, "/v1/"); ok && w.chance(20) {
		id := pick(w.source, project, project, project, "0123456789abcdef0123456789abcdee", "-", "a", "ABC", "xyz", "")
		path = "/v1/" + id + "/" + rest
		r.what += ", with a project"
		if !w.chance(4) {
			r.headers = append(r.headers, pick(w.source, "X-Project-Id: ", "X-Tenant-Id: ")+project)
		}
	}
	if w.chance(60) {
		r.what += ", path bent"
		path = pick(w.source, path+"/", path+".json", path+".xml", path+".txt", "/"+path, strings.Replace(path, "/v1/", "/v1//", 1), strings.ToUpper(path), path+"/x", path+"%20x", path+".JSON", path+".json.xml",
			strings.Replace(path, "s", "%73", 1), path+";x=1", path+"%3Fx", path+"/edit", path+"/action", path+"/.", path+"%2F")
	}
	r.path = path
	if asked {
		r.path += "?" + query
	}
	if !w.chance(3) {
		r.headers = append(r.headers, "OpenStack-API-Version: "+w.version())
	}
	if w.chance(60) {
		r.headers = append(r.headers, "OpenStack-API-Version: "+w.version())
	}
	if w.chance(60) {
		r.headers = append(r.headers, pick(w.source, "X-Openstack-Masakari-Api-Version: 1.2", "X-Openstack-Ha-Api-Version: 1.2", "Openstack-Ha-Api-Version: 1.2", "X-Openstack-Request-Id: req-"+nowhere, "X-Openstack-Request-Id: x",
			"X-Forwarded-Proto: https", "X-Forwarded-Host: elsewhere", "Forwarded: for=192.0.2.1;proto=https", "Origin: https://dashboard.example.com", "X-Auth-Token: x", "X-User-Id: someone", "X-Roles: reader", "Accept-Language: de"))
	}
	if r.body != nil && !w.chance(30) {
		r.headers = append(r.headers, "Content-Type: application/json")
	} else if w.chance(15) {
		r.headers = append(r.headers, "Content-Type: "+pick(w.source, "application/json; charset=UTF-8", "text/plain", "application/xml", "application/vnd.openstack.masakari+json", "text/html", "APPLICATION/JSON", "application/json;version=1",
			"text/plain; charset=utf-8", "application/x-www-form-urlencoded", "x", "application/", "application/json, text/plain", "multipart/form-data; boundary=x", " application/json ", "application/jsonx", "application/json;"))
	}
	if !w.chance(4) {
		r.headers = append(r.headers, "Accept: "+w.mostly(12, []string{"application/json"}, []string{"*/*", "text/html", "application/xml", "application/vnd.openstack.masakari+json", "application/vnd.openstack.masakari+json;q=0.5, application/json",
			"application/json;q=0.3, application/vnd.openstack.masakari+json;q=0.9", "text/plain", "text/html, application/json", "application/*", "text/*", "x", "application/json;q=0", "*/*;q=0.1, text/html;q=0.5", "application/atom+xml",
			"application/json;version=1", ",", "application/json;q=x", "APPLICATION/JSON"}))
	}
}

func (w *world) version() string {
	return w.mostly(10, []string{"instance-ha 1.0", "instance-ha 1.1", "instance-ha 1.2", "instance-ha 1.3", "instance-ha 1.2", "instance-ha latest"}, []string{
		"instance-ha 1.4", "instance-ha 2.0", "instance-ha 0.9", "instance-ha 1", "instance-ha 1.02", "instance-ha 1.10", "instance-ha LATEST", "instance-ha x", "instance-ha", "masakari 1.2", "ha 1.2", "1.2", "", "INSTANCE-HA 1.2",
		"instance-ha 1.1, instance-ha 1.2", "compute 2.53, instance-ha 1.2", "instance-ha 1.2, compute 2.53", "instance-ha  1.2", "instance-ha 1.2 x", "instance-ha=1.2", "instance-ha 1.-1", "instance-ha 1.2.3", "instance-ha 10.0",
		"instance-ha 01.2", "instance-ha 1.2,", ",instance-ha 1.1", "instance-ha 1.1 , compute x", "instance-ha 99999999999999999999.0", "instance-ha 1.2;q=1", "instance-ha 1.x, instance-ha 1.1", "instance-ha\t1.1", "compute latest"})
}

func (w *world) createSegment() request {
	b := body{{"name", w.mostly(12, goodNames, badNames)}, {"recovery_method", w.mostly(15, methods, badMethods)}, {"service_type", w.mostly(15, services, badNames)}}
	if w.chance(2) {
		b = append(b, member{"description", w.mostly(6, texts, badTexts)})
	}
	if w.chance(3) {
		b = append(b, member{"enabled", w.mostly(6, booleans, notBoolean)})
	}
	return request{what: "create a segment", method: "POST", path: "/v1/segments", body: w.wrapped("segment", w.spoilt(b).String())}
}

func (w *world) updateSegment() request {
	all := body{
		{"name", w.mostly(12, goodNames, badNames)}, {"recovery_method", w.mostly(15, methods, badMethods)}, {"service_type", w.mostly(15, services, badNames)},
		{"description", w.mostly(6, texts, badTexts)}, {"enabled", w.mostly(6, booleans, notBoolean)},
	}
	w.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	b := all[:1+w.IntN(2)*w.IntN(5)]
	return request{what: "update a segment", method: "PUT", path: "/v1/segments/" + w.one(w.segments), body: w.wrapped("segment", w.spoilt(b).String())}
}

func (w *world) deleteSegment() request {
	return request{what: "delete a segment", method: "DELETE", path: "/v1/segments/" + w.one(w.segments)}
}

func (w *world) showSegment() request {
	return request{what: "show a segment", method: "GET", path: "/v1/segments/" + w.one(w.segments)}
}

// hostNames are of compute services, but for the first bad ones, which Nova does not know or about which it fails.
var (
	hostNames = quotedAll("aost-0", "AOST-0", "cmp-1", "cmp-2", "cmp-3", "cmp-4", "cmp-5", "cmp-6", "cmp.7", "cmp 8", "cmpü-9")
	badHosts  = append(quotedAll("missing-1", "missing 2", "nova403-x", "nova404-x", "nova409-x", "nova500-x", "nova503-x", "nova400-x", "nova401-x"), badNames...)
)

func (w *world) createHost() request {
	b := body{{"name", w.mostly(10, hostNames, badHosts)}, {"type", w.mostly(15, types, badTypes)}, {"control_attributes", w.mostly(15, texts[:7], append(badTexts, "null"))}}
	if w.chance(3) {
		b = append(b, member{"reserved", w.mostly(6, booleans, notBoolean)})
	}
	if w.chance(4) {
		b = append(b, member{"on_maintenance", w.mostly(6, booleans, notBoolean)})
	}
	return request{what: "create a host", method: "POST", path: "/v1/segments/" + w.one(w.segments) + "/hosts", body: w.wrapped("host", w.spoilt(b).String())}
}

// hostPath names a host below its segment, at times below another one.
func (w *world) hostPath() string {
	h := w.host()
	segment, uuid := h.segment, h.uuid
	if w.chance(12) {
		segment = w.one(w.segments)
	}
	if w.chance(8) {
		uuid = w.one(w.hosts)
	}
	return "/v1/segments/" + segment + "/hosts/" + uuid
}

func (w *world) updateHost() request {
	all := body{
		{"name", w.mostly(10, hostNames, badHosts)}, {"type", w.mostly(15, types, badTypes)}, {"control_attributes", w.mostly(15, texts[:7], append(badTexts, "null"))},
		{"reserved", w.mostly(6, booleans, notBoolean)}, {"on_maintenance", w.mostly(6, booleans, notBoolean)},
	}
	w.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	b := all[:1+w.IntN(2)*w.IntN(5)]
	return request{what: "update a host", method: "PUT", path: w.hostPath(), body: w.wrapped("host", w.spoilt(b).String())}
}

func (w *world) deleteHost() request {
	return request{what: "delete a host", method: "DELETE", path: w.hostPath()}
}

func (w *world) showHost() request {
	return request{what: "show a host", method: "GET", path: w.hostPath()}
}

// report is a notification, often one like an earlier one, so that the duplicates' rules are met.
func (w *world) report() request {
	if w.last != nil && w.chance(8) {
		return request{what: "report the same again", method: "POST", path: "/v1/notifications", body: w.last}
	}
	w.now += pick(w.source, 0, 1, 5, 6, 60, 179, 180, 181, 600)
	kind := w.mostly(25, quotedAll("COMPUTE_HOST", "VM", "PROCESS"), quotedAll("vm", "HOST", "", "COMPUTE_HOST "))
	payload := body{{"event", w.mostly(20, events, badEvents)}}
	switch kind {
	case `"VM"`:
		payload = body{{"event", w.mostly(20, vmEvents, append(badEvents, `"`+long(256)+`"`))}, {"instance_uuid", w.mostly(15, instances, badUUIDs)}, {"vir_domain_event", w.mostly(20, vmDetails, odd)}}
	case `"PROCESS"`:
		payload = append(payload, member{"process_name", w.mostly(15, processes, append(odd, `"`+long(256)+`"`))})
	default:
		if !w.chance(6) {
			payload = append(payload, member{"host_status", w.mostly(15, hostStates, badEvents)})
		}
		if !w.chance(4) {
			payload = append(payload, member{"cluster_status", w.mostly(15, quotedAll("ONLINE", "OFFLINE"), badEvents)})
		}
	}
	if w.chance(40) {
		payload = append(payload, member{pick(w.source, "bad*key", "", "ä", long(256), "a key", "a\n"), pick(w.source, `"x"`, "1", "{}")})
	}
	name := w.host().name
	if w.chance(15) {
		name = strings.ToUpper(name)
	}
	hostname := quoted(name)
	if w.chance(15) {
		hostname = pick(w.source, append(odd, quotedAll("nobody", "a b", "ä", "", long(256), "cmp-1\n", "a/b", " cmp-1")...)...)
	}
	b := body{{"type", kind}, {"hostname", hostname}, {"generated_time", w.mostly(12, []string{quoted(w.moment(max(0, w.now-pick(w.source, 0, 0, 0, 1, 5, 170, 200, 3600))))}, badMoments)}, {"payload", w.spoilt(payload).String()}}
	w.last = w.wrapped("notification", w.spoilt(b).String())
	return request{what: "report", method: "POST", path: "/v1/notifications", body: w.last}
}

func (w *world) showNotification() request {
	return request{what: "show a notification", method: "GET", path: "/v1/notifications/" + w.one(w.notifications)}
}

// vmoves are not in Debian's Masakari.
func (w *world) vmoves() request {
	path := "/v1/notifications/" + w.one(w.notifications) + "/vmoves"
	if w.chance(2) {
		path += "/" + nowhere
	}
	return request{what: "vmoves", method: pick(w.source, "GET", "GET", "GET", "POST", "PUT", "DELETE"), path: path}
}

func (w *world) listSegments() request {
	return request{what: "list segments", method: "GET", path: "/v1/segments" + w.query(w.segments,
		[]string{"name", "recovery_method", "service_type", "enabled", "description", "uuid", "id", "created_at", "updated_at", "deleted", "deleted_at"},
		[]string{"hosts", "recoverymethod"}, map[string][]string{
			"recovery_method": {"auto", "reserved_host", "AUTO", "x", "", "auto%20"}, "service_type": {"compute", "ha", "s%C3%A9rvice", "COMPUTE", "", "%00", "%FF", "x'"}, "enabled": words, "name": {"rack-1"}, "uuid": {nowhere},
		})}
}

func (w *world) listHosts() request {
	return request{what: "list hosts", method: "GET", path: "/v1/segments/" + w.one(w.segments) + "/hosts" + w.query(w.hosts,
		[]string{"name", "type", "control_attributes", "reserved", "on_maintenance", "failover_segment_id", "uuid", "id", "created_at", "updated_at", "deleted", "deleted_at"},
		[]string{"failover_segment", "segment"}, map[string][]string{
			"type": {"COMPUTE", "SSH", "compute", "", "x"}, "on_maintenance": words, "reserved": words, "name": {"cmp-1"}, "control_attributes": {"SSH"}, "failover_segment_id": {nowhere, "x"},
		})}
}

func (w *world) listNotifications() request {
	hosts := []string{nowhere, "x", "", "1"}
	for _, h := range w.hosts {
		hosts = append(hosts, h.uuid)
	}
	return request{what: "list notifications", method: "GET", path: "/v1/notifications" + w.query(w.notifications,
		[]string{"notification_uuid", "generated_time", "source_host_uuid", "type", "status", "id", "created_at", "updated_at", "deleted", "deleted_at"}, // the payload is JSON text, whose spelling is each server's own
		[]string{"uuid", "hostname", "recovery_workflow_details"}, map[string][]string{
			"source_host_uuid": hosts, "type": {"VM", "COMPUTE_HOST", "PROCESS", "vm", "", "x"}, "status": {"new", "finished", "error", "failed", "ignored", "running", "NEW", "x", ""},
			"generated-since": w.since(), "generated_since": {"2024-03-01"}, "hostname": {"cmp-1"},
		})}
}

// since are times for the filter: whole seconds only, or MySQL's missing fraction would count.
func (w *world) since() []string {
	all := []string{"", "x", "2024-13-01", "1709251200"}
	for range 6 {
		text := w.moment(w.IntN(w.now+1) / 10 * 10)
		all = append(all, url.QueryEscape(text), strings.ReplaceAll(text, " ", "%20"))
	}
	return all
}

// words are booleans for filters, and not.
var words = []string{"1", "0", "True", "False", "true", "false", "yes", "no", "on", "off", "t", "f", "y", "n", "YES", "Off", "%20true%20", "TRUE", "", "x", "2", "None", "%C3%A4", "1.0", "tru", "%27"}

// query is a list's query string, "" or with a question mark before it.
func (w *world) query(of []*thing, keys, badKeys []string, filters map[string][]string) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+"="+value) }
	if w.chance(2) {
		add("limit", w.mostly(5, []string{"1", "2", "3", "5", "0"}, []string{"", "-1", "x", "%201%20", "%2B2", "1.0", "1e1", "99999999999999999999", "-0", "007", "8", "1000", "1001", "%D9%A2", "1_0", "0x1", "None", "true", "2%00", "-99999999999999999999", "%092", "+2", "--1", "-%201"}))
	}
	if w.chance(20) {
		add("page_size", pick(w.source, "1", "x", "-1", "", "2"))
	}
	for range pick(w.source, 0, 0, 1, 1, 2, 3) {
		add("sort_key", w.mostly(8, keys, append(badKeys, "bogus", "", "name,id", "name:asc", "NAME", "%20name%20", "__class__", "metadata", "save", "%27", "%00", "deleted_at%20", "created_at.x", "%C3%A4")))
		if w.chance(2) {
			add("sort_dir", w.mostly(8, []string{"asc", "desc"}, []string{"", "ASC", "up", "%20asc%20", "Desc", "asc,desc"}))
		}
	}
	if w.chance(30) {
		add("sort_dir", pick(w.source, "asc", "desc", "x"))
	}
	if w.chance(3) && len(of) > 0 {
		add("marker", w.mostly(8, []string{"‹" + of[w.IntN(len(of))].uuid + "›"}, []string{of[w.IntN(len(of))].uuid, nowhere, "", "999999999", "x", "-1", "0", "99999999999999999999", "1.5", "None", "%20", "%27", "%00", "%FF"}))
	}
	names := make([]string, 0, len(filters))
	for name := range filters {
		names = append(names, name)
	}
	slices.Sort(names)
	for range pick(w.source, 0, 0, 1, 1, 2) {
		name := pick(w.source, names...)
		add(name, pick(w.source, filters[name]...))
	}
	if w.chance(20) {
		add(pick(w.source, "foo", "Limit", "LIMIT", "all_tenants", "fields", "sort", "", "limit[]", "%00"), pick(w.source, "", "1", "x"))
	}
	if w.chance(25) {
		parts = append(parts, pick(w.source, "limit", "marker", "&&", "=", "%zz", "enabled", ";", "limit=2;marker=1", "sort_key"))
	}
	if len(parts) == 0 {
		return pick(w.source, "", "", "", "?")
	}
	w.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "?" + strings.Join(parts, "&")
}

func (w *world) discovery() request {
	return request{what: "discovery", method: pick(w.source, "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE"), path: pick(w.source,
		"/", "/v1", "/v1/", "/v1/versions/v1.0", "/v1/versions/v1", "/v1/versions", "/v1/versions/", "/v2", "/v1.0/", "/v10", "/foo/bar", "/v1/"+project, "/v1/"+project+"/", "/?x=1", "/v1/?limit=x", "/v2/segments", "/segments",
		"/v1/versions/v1.0.json", "/v1.json", "/v1/.json", "//", "/v1/versions/new", "/versions", "/favicon.ico", "/foo%20bar", "/foo?bar", "/v1/versions/v2.0", "/V1/", "/v1%2F", "/ä")}
}

func (w *world) extensions() request {
	return request{what: "extensions", method: pick(w.source, "GET", "GET", "GET", "GET", "GET", "POST", "PUT", "DELETE"), path: "/v1/extensions" + pick(w.source,
		"", "", "/segments", "/os-hosts", "/notifications", "/versions", "/extensions", "/hosts", "/vmoves", "/Segments", "/x", "/", "/new", "/segments/edit", "?limit=1", "/segments.json", ".json", "/os-hosts.x")}
}

// anywhere is a path that may not be there.
func (w *world) anywhere() request {
	segment, host, notification := w.one(w.segments), w.one(w.hosts), w.one(w.notifications)
	return request{what: "anywhere", method: pick(w.source, "GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"), path: pick(w.source,
		"/v1/segments/new", "/v1/segments/"+segment+"/edit", "/v1/segments/"+segment+"/action", "/v1/segments/"+segment+"/hosts/new", "/v1/segments/"+segment+"/hosts/"+host+"/edit", "/v1/segments/"+segment+"/hosts/"+host+"/action",
		"/v1/notifications/new", "/v1/notifications/"+notification, "/v1/notifications/"+notification+"/edit", "/v1/notifications/"+notification+"/action", "/v1/segments", "/v1/notifications", "/v1/segments/"+segment,
		"/v1/hosts", "/v1/hosts/"+host, "/v1/foo", "/v1/segments/"+segment+"/hosts", "/v1/segments/"+segment+"/hosts/"+host+"/x", "/v1/segments/"+segment+"/foo", "/v1/segments/detail", "/v1/os-hosts", "/v1/vmoves", "/v1/healthcheck",
		"/v1/segments//hosts", "/v1/segments/"+segment+"//", "/v1/"+project, "/v1/"+project+"/foo", "/v1/"+project+"/extensions", "/v1/"+project+"/versions/v1.0"), body: pick(w.source, nil, nil, []byte(`{}`), []byte(`{"segment": {}}`), []byte(`x`), []byte(`{"a": 1, "b": 2}`))}
}
