package wire

import (
	"regexp"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// payloadKey is the pattern of payload keys, as errors show it.
const payloadKey = `^[a-zA-Z0-9-_:. ]{1,255}$`

var (
	payloadKeys  = regexp.MustCompile(`^[a-zA-Z0-9\-_:. ]{1,255}$`)
	payloadValue = all(typed("string"), length(0, 255))
)

// payloadRule is what every payload obeys, whatever its type: texts under plain keys. Values come before keys, as the
// schema has it.
var payloadRule = all(typed("object"), func(_ string, v any) *violation {
	o := v.(*object)
	for _, k := range o.keys {
		if !payloadKeys.MatchString(k) {
			continue
		}
		if bad := payloadValue(k, o.values[k]); bad != nil {
			return bad
		}
	}
	return nil
}, func(field string, v any) *violation {
	var wrong []string
	for _, k := range v.(*object).keys {
		if !payloadKeys.MatchString(k) {
			wrong = append(wrong, pythonString(k))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	verb := "does"
	if len(wrong) > 1 {
		verb = "do"
	}
	return &violation{field: field, value: v, text: cut(strings.Join(wrong, ", ")) + " " + verb + " not match any of the regexes: '" + payloadKey + "'"}
})

// typeRules are the payloads of the types (contract section 3). Property order is that of the original's schemas. A payload is validated by
// itself: its object is the outermost one.
var typeRules = map[ha.Type]rule{
	ha.TypeComputeHost: shape{
		properties: []property{
			{ha.KeyHostStatus, word(ha.HostStatusNormal, "UNKNOWN")},
			{ha.KeyClusterStatus, word("ONLINE", "OFFLINE")},
			{ha.KeyEvent, word(ha.EventStarted, ha.EventStopped)},
		},
		required: []string{ha.KeyEvent}, requiredFirst: true,
	}.rule(),
	ha.TypeProcess: shape{
		properties: []property{
			{ha.KeyProcessName, all(typed("string"), length(1, 4096))},
			{ha.KeyEvent, word(ha.EventStarted, ha.EventStopped)},
		},
		required: []string{ha.KeyProcessName, ha.KeyEvent}, requiredFirst: true,
	}.rule(),
	ha.TypeVM: shape{
		properties: []property{
			{ha.KeyInstanceUUID, all(typed("string"), format("uuid", isUUID))},
			{ha.KeyVirDomainEvent, all(typed("string"), length(1, 255))},
			{ha.KeyEvent, all(typed("string"), length(1, 255))},
		},
		required: []string{ha.KeyInstanceUUID, ha.KeyVirDomainEvent, ha.KeyEvent}, requiredFirst: true,
	}.rule(),
}

func isUUID(s string) bool {
	_, ok := ha.CanonicalUUID(s)
	return ok
}

// readPayload checks o by the rules of its type. The instance's uuid is kept in its canonical spelling: Nova knows no
// other, and two spellings of one instance are duplicates.
func readPayload(t ha.Type, o *object) (ha.Payload, error) {
	if bad := typeRules[t]("", o); bad != nil {
		return nil, bad.error()
	}
	p := make(ha.Payload, len(o.keys))
	for _, k := range o.keys {
		p[k] = o.values[k].(string)
	}
	if id, ok := ha.CanonicalUUID(p[ha.KeyInstanceUUID]); ok {
		p[ha.KeyInstanceUUID] = id
	}
	return p, nil
}
