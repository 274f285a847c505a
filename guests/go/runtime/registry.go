package runtime

import (
	"slices"
	"sort"
)

// registry has what a game has registered, in the order of the names. It is no map: a map places what it has by a number that is
// random in every instance, and what all matches of a module have written alike the server keeps once.
type registry[F any] struct {
	names     []string
	functions []F
}

// set registers a function, in place of one that has its name.
func (r *registry[F]) set(name string, function F) {
	at := sort.SearchStrings(r.names, name)
	if at < len(r.names) && r.names[at] == name {
		r.functions[at] = function
		return
	}
	r.names = slices.Insert(r.names, at, name)
	r.functions = slices.Insert(r.functions, at, function)
}

// get gives the function of this name, and the zero value if there is none.
func (r *registry[F]) get(name string) (function F) {
	at := sort.SearchStrings(r.names, name)
	if at < len(r.names) && r.names[at] == name {
		function = r.functions[at]
	}
	return function
}
