package ha

import "testing"

func TestCanonicalUUID(t *testing.T) {
	const want = "0123abcd-4567-89ab-cdef-0123456789ab"
	for _, s := range []string{
		want, "0123ABCD-4567-89AB-CDEF-0123456789AB", "0123abcd456789abcdef0123456789ab",
		"{0123abcd-4567-89ab-cdef-0123456789ab}", "urn:uuid:0123abcd-4567-89ab-cdef-0123456789ab",
	} {
		if got, ok := CanonicalUUID(s); !ok || got != want {
			t.Errorf("CanonicalUUID(%q) = %q, %v; want %q", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "abc", "7", want + "0", "0123abcg-4567-89ab-cdef-0123456789ab", "0123abcd-4567-89ab-cdef-0123456789a\x00", "é123abcd456789abcdef0123456789a"} {
		if got, ok := CanonicalUUID(s); ok {
			t.Errorf("CanonicalUUID(%q) = %q, want a refusal", s, got)
		}
	}
}
