// Package wire is the convention between a guest and the server, version 1 (docs/wasm/convention.md): values as
// bytes, and calls of the server's functions. Games use package runtime instead.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sort"
)

const (
	tagNil = iota
	tagFalse
	tagTrue
	tagInt
	tagFloat
	tagBytes
	tagList
	tagMap
)

var errBadValue = errors.New("not a value")

// Append appends the bytes of a value: nil, a bool, a number, a string, []byte, a list or a map of them.
func Append(to []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return AppendNil(to), nil
	case bool:
		return AppendBool(to, v), nil
	case int:
		return AppendInt(to, int64(v)), nil
	case int32:
		return AppendInt(to, int64(v)), nil
	case int64:
		return AppendInt(to, v), nil
	case float64:
		return binary.LittleEndian.AppendUint64(append(to, tagFloat), math.Float64bits(v)), nil
	case string:
		return AppendText(to, v), nil
	case []byte:
		return AppendBytes(to, v), nil
	case []any:
		to = AppendList(to, len(v))
		var err error
		for _, item := range v {
			if to, err = Append(to, item); err != nil {
				return nil, err
			}
		}
		return to, nil
	case map[string]any:
		// In the order of the names, so that the same map is the same bytes.
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		sort.Strings(names)
		to = binary.LittleEndian.AppendUint32(append(to, tagMap), uint32(len(v)))
		var err error
		for _, name := range names {
			if to, err = Append(AppendName(to, name), v[name]); err != nil {
				return nil, err
			}
		}
		return to, nil
	case json.Number:
		if number, err := v.Int64(); err == nil {
			return AppendInt(to, number), nil
		}
		number, err := v.Float64()
		if err != nil {
			return nil, err
		}
		return Append(to, number)
	default:
		// Lists and maps of one type, and numbers of other sizes.
		switch kind := reflect.TypeOf(value).Kind(); kind {
		case reflect.Slice, reflect.Map, reflect.String, reflect.Bool:
			return Append(to, Plain(value))
		default:
			if kind >= reflect.Int && kind <= reflect.Float64 {
				return Append(to, Plain(value))
			}
		}
		return nil, fmt.Errorf("a %T is no value for the server", value)
	}
}

// AppendList appends the head of a list of so many values.
func AppendList(to []byte, count int) []byte {
	return binary.LittleEndian.AppendUint32(append(to, tagList), uint32(count))
}

// AppendName appends a text with its length, as the names of a map are written.
func AppendName(to []byte, name string) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(name)))
	return append(to, name...)
}

// AppendNil appends nil.
func AppendNil(to []byte) []byte { return append(to, tagNil) }

// AppendBool appends true or false.
func AppendBool(to []byte, value bool) []byte {
	if value {
		return append(to, tagTrue)
	}
	return append(to, tagFalse)
}

// AppendBytes appends bytes, which are a string there.
func AppendBytes(to, bytes []byte) []byte {
	to = binary.LittleEndian.AppendUint32(append(to, tagBytes), uint32(len(bytes)))
	return append(to, bytes...)
}

// AppendInt appends a whole number.
func AppendInt(to []byte, number int64) []byte {
	return binary.LittleEndian.AppendUint64(append(to, tagInt), uint64(number))
}

// AppendText appends a string as a value.
func AppendText(to []byte, text string) []byte {
	return AppendName(append(to, tagBytes), text)
}

// Decode reads the one value that these bytes are: strings as string, whole numbers as int64, others as float64, lists as
// []any that is not nil.
func Decode(bytes []byte) (any, error) {
	r := NewReader(bytes)
	value, err := r.Value()
	if err == nil && len(r.rest) > 0 {
		err = errBadValue
	}
	return value, err
}

// Reader reads bytes that are values one behind the other, each as its user wants it.
type Reader struct{ rest []byte }

// NewReader reads from the beginning of these bytes.
func NewReader(bytes []byte) Reader { return Reader{bytes} }

func (r *Reader) take(count int) ([]byte, error) {
	if count < 0 || count > len(r.rest) {
		return nil, errBadValue
	}
	taken := r.rest[:count]
	r.rest = r.rest[count:]
	return taken, nil
}

func (r *Reader) tag() (byte, error) {
	if len(r.rest) == 0 {
		return 0, errBadValue
	}
	tag := r.rest[0]
	r.rest = r.rest[1:]
	return tag, nil
}

func (r *Reader) count() (int, error) {
	bytes, err := r.take(4)
	if err != nil {
		return 0, err
	}
	return int(binary.LittleEndian.Uint32(bytes)), nil
}

func (r *Reader) name() ([]byte, error) {
	count, err := r.count()
	if err != nil {
		return nil, err
	}
	return r.take(count)
}

// List reads the head of a list: how many values follow that are in it.
func (r *Reader) List() (int, error) {
	if tag, err := r.tag(); err != nil || tag != tagList {
		return 0, errBadValue
	}
	return r.count()
}

// Int reads a whole number.
func (r *Reader) Int() (int64, error) {
	if tag, err := r.tag(); err != nil || tag != tagInt {
		return 0, errBadValue
	}
	bytes, err := r.take(8)
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(bytes)), nil
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	tag, err := r.tag()
	if err != nil || tag != tagFalse && tag != tagTrue {
		return false, errBadValue
	}
	return tag == tagTrue, nil
}

// Bytes reads a string, and copies nothing.
func (r *Reader) Bytes() ([]byte, error) {
	if tag, err := r.tag(); err != nil || tag != tagBytes {
		return nil, errBadValue
	}
	return r.name()
}

// Skip passes over a value, whose bytes it returns: they can be decoded when somebody asks for them.
func (r *Reader) Skip() ([]byte, error) {
	end := skip(r.rest, 0)
	if end < 0 {
		return nil, errBadValue
	}
	return r.take(end)
}

// skip gives where the value ends that begins at this place, or a number below 0 if none does. It is called for each
// part of each call, so that it is plain.
func skip(bytes []byte, at int) int {
	if at < 0 || at >= len(bytes) {
		return -1
	}
	tag := bytes[at]
	at++
	switch tag {
	case tagNil, tagFalse, tagTrue:
	case tagInt, tagFloat:
		at += 8
	case tagBytes:
		at = skipName(bytes, at)
	case tagList, tagMap:
		if len(bytes)-at < 4 {
			return -1
		}
		count := binary.LittleEndian.Uint32(bytes[at:])
		at += 4
		for ; count > 0 && at >= 0; count-- {
			if tag == tagMap {
				at = skipName(bytes, at)
			}
			at = skip(bytes, at)
		}
	default:
		return -1
	}
	if at > len(bytes) {
		return -1
	}
	return at
}

// skipName gives where the bytes end whose length is at this place.
func skipName(bytes []byte, at int) int {
	if at < 0 || len(bytes)-at < 4 {
		return -1
	}
	end := uint64(at) + 4 + uint64(binary.LittleEndian.Uint32(bytes[at:]))
	if end > uint64(len(bytes)) {
		return -1
	}
	return int(end)
}

// Value reads a value, as Decode does.
func (r *Reader) Value() (any, error) {
	tag, err := r.tag()
	if err != nil {
		return nil, err
	}
	switch tag {
	case tagNil:
		return nil, nil
	case tagFalse:
		return false, nil
	case tagTrue:
		return true, nil
	case tagInt, tagFloat:
		bytes, err := r.take(8)
		if err != nil {
			return nil, err
		}
		bits := binary.LittleEndian.Uint64(bytes)
		if tag == tagInt {
			return int64(bits), nil
		}
		return math.Float64frombits(bits), nil
	case tagBytes:
		bytes, err := r.name()
		return string(bytes), err
	case tagList:
		count, err := r.count()
		if err != nil {
			return nil, err
		}
		items := []any{}
		for range count {
			item, err := r.Value()
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	case tagMap:
		count, err := r.count()
		if err != nil {
			return nil, err
		}
		members := map[string]any{}
		for range count {
			name, err := r.name()
			if err != nil {
				return nil, err
			}
			if members[string(name)], err = r.Value(); err != nil {
				return nil, err
			}
		}
		return members, nil
	default:
		return nil, errBadValue
	}
}
