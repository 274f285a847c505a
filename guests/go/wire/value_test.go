package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// A value of every kind, and what is skipped of it is what is read: nothing more, and nothing of what is cut off.
func TestSkipPassesOverAWholeValueAndNoHalfOne(t *testing.T) {
	values := []any{
		nil, true, false, int64(-7), 1.5, "", "text", []any{}, map[string]any{},
		[]any{nil, "a", []any{int64(1), map[string]any{"b": "c", "": []any{2.5}}}},
		map[string]any{"headers": []any{[]any{"Accept", "*/*"}}, "user_id": "u", "flag": true},
	}
	for _, value := range values {
		whole, err := Append(nil, value)
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(append(bytes.Clone(whole), "behind"...))
		skipped, err := r.Skip()
		if err != nil || !bytes.Equal(skipped, whole) || string(r.rest) != "behind" {
			t.Errorf("%v: skipped %v of %v, %v", value, skipped, whole, err)
		}
		if read, err := Decode(skipped); err != nil || len(whole) > 5 && !reflect.DeepEqual(read, value) {
			t.Errorf("%v is read as %v, %v", value, read, err)
		}
		for cut := range whole {
			if r := NewReader(whole[:cut]); skipFails(&r) {
				continue
			}
			t.Errorf("%v: the first %d of %d bytes are skipped as a value", value, cut, len(whole))
		}
	}
	for _, wrong := range [][]byte{{8}, {5, 255, 255, 255, 255}, {6, 1, 0, 0, 0}, {7, 1, 0, 0, 0, 9, 0, 0, 0}, {3, 1}} {
		if r := NewReader(wrong); !skipFails(&r) {
			t.Errorf("%v is no value", wrong)
		}
	}
}

func skipFails(r *Reader) bool {
	_, err := r.Skip()
	return err != nil
}
