package text

import "slices"

// Nearest returns the name that was probably meant by a word that is none of them; "" if none is near enough for a
// typing error.
func Nearest(word string, names []string) string {
	nearest, best := "", len(word)
	for _, name := range names {
		if d := EditDistance(word, name); d < best {
			nearest, best = name, d
		}
	}
	if best > max(2, len(word)/2) {
		return ""
	}
	return nearest
}

// EditDistance counts the insertions, deletions and substitutions between two ASCII names (Levenshtein).
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			substitute := above[j]
			if a[i] != b[j] {
				substitute++
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, substitute)
		}
	}
	return row[len(b)]
}
