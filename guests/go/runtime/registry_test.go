package runtime

import "testing"

func TestRegistryFindsWhatWasSetLast(t *testing.T) {
	var numbers registry[int]
	for number, name := range []string{"m", "z", "a", "m", "", "b"} {
		numbers.set(name, number+1)
	}
	for name, want := range map[string]int{"m": 4, "z": 2, "a": 3, "": 5, "b": 6, "c": 0, "zz": 0} {
		if got := numbers.get(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}
