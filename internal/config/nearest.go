package config

import "strings"

// nearest returns the candidate that a typist may have meant, "" when none is near.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", 1+max(2, len(word)/4)
	for _, c := range candidates {
		if d := distance(fold(word), fold(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func didYouMean(word string, candidates []string) string {
	if n := nearest(word, candidates); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// distance counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
