// Messages: structs whose fields have the names of their JSON form as tags, to and from the values that the server takes
// and gives. What a hook sees has the names and forms of Nakama's Lua, and so have the results of functions: what is
// JSON text in a message is a table there, a time is a number of seconds, and a user's id is called user_id.

package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// filler is a type that reads itself.
type filler interface{ FillPlain(value any) error }

// plainer is a type that tells its value itself.
type plainer interface{ Plain() any }

// chooser is a message with a choice: it has a pointer to a struct of one field for each part of the choice.
type chooser interface{ Choices() []any }

// Fill sets what `target` points to from a value. Names that it does not have are passed over; nil leaves it as it is.
func Fill(target, value any) error {
	return fill(reflect.ValueOf(target).Elem(), value)
}

func fill(to reflect.Value, value any) error {
	if value == nil {
		return nil
	}
	if own, is := to.Addr().Interface().(filler); is {
		return own.FillPlain(value)
	}
	switch to.Kind() {
	case reflect.Pointer:
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		return fill(to.Elem(), value)
	case reflect.Struct:
		return fillStruct(to, value)
	case reflect.String:
		text, is := value.(string)
		if !is {
			bytes, err := JSON(value)
			if err != nil {
				return err
			}
			text = string(bytes)
		}
		to.SetString(text)
		return nil
	case reflect.Slice:
		return fillSlice(to, value)
	case reflect.Map:
		members, is := value.(map[string]any)
		if !is {
			return wrong(to, value)
		}
		items := reflect.MakeMapWithSize(to.Type(), len(members))
		for name, member := range members {
			item := reflect.New(to.Type().Elem()).Elem()
			if err := fill(item, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			items.SetMapIndex(reflect.ValueOf(name), item)
		}
		to.Set(items)
		return nil
	case reflect.Interface:
		to.Set(reflect.ValueOf(value))
		return nil
	default:
		return fillNumber(to, value)
	}
}

func wrong(to reflect.Value, value any) error {
	return fmt.Errorf("a %T is no %s", value, to.Type())
}

func fillNumber(to reflect.Value, value any) error {
	// Whole numbers of 64 bits are texts in messages.
	if text, is := value.(string); is {
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return wrong(to, value)
		}
		value = number
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			value = whole
		}
	}
	switch kind := to.Kind(); {
	case kind == reflect.Bool:
		if flag, is := value.(bool); is {
			to.SetBool(flag)
			return nil
		}
	case to.CanInt():
		switch number := value.(type) {
		case int64:
			if !to.OverflowInt(number) {
				to.SetInt(number)
				return nil
			}
		case float64:
			if number == math.Trunc(number) && math.Abs(number) < 1<<53 && !to.OverflowInt(int64(number)) {
				to.SetInt(int64(number))
				return nil
			}
		}
	case to.CanUint():
		if number, is := value.(int64); is && number >= 0 && !to.OverflowUint(uint64(number)) {
			to.SetUint(uint64(number))
			return nil
		}
	case to.CanFloat():
		switch number := value.(type) {
		case int64:
			to.SetFloat(float64(number))
			return nil
		case float64:
			to.SetFloat(number)
			return nil
		}
	}
	return wrong(to, value)
}

func fillSlice(to reflect.Value, value any) error {
	if text, is := value.(string); is && to.Type().Elem().Kind() == reflect.Uint8 {
		data, err := base64.StdEncoding.DecodeString(text)
		to.SetBytes(data)
		return err
	}
	if members, is := value.(map[string]any); is && len(members) == 0 {
		// An empty table of Lua's.
		return nil
	}
	items, is := value.([]any)
	if !is {
		return wrong(to, value)
	}
	all := reflect.MakeSlice(to.Type(), len(items), len(items))
	for index, item := range items {
		if err := fill(all.Index(index), item); err != nil {
			return fmt.Errorf("%d: %w", index, err)
		}
	}
	to.Set(all)
	return nil
}

func fillStruct(to reflect.Value, value any) error {
	members, is := value.(map[string]any)
	if items, isList := value.([]any); isList && len(items) == 0 {
		is = true
	}
	if !is {
		return wrong(to, value)
	}
	for index := range to.NumField() {
		name := nameOf(to.Type().Field(index))
		member, known := members[name]
		if name == "id" && !known {
			member = members["user_id"]
		}
		if name == "" || member == nil {
			continue
		}
		if err := fill(to.Field(index), member); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return fillChoice(to, members)
}

// fillChoice sets that part of a choice which is there.
func fillChoice(to reflect.Value, members map[string]any) error {
	message, is := to.Addr().Interface().(chooser)
	if !is {
		return nil
	}
	for _, part := range message.Choices() {
		partType := reflect.TypeOf(part).Elem()
		name := nameOf(partType.Field(0))
		member := members[name]
		if member == nil {
			continue
		}
		chosen := reflect.New(partType)
		if err := fill(chosen.Elem().Field(0), member); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for index := range to.NumField() {
			if field := to.Field(index); field.Kind() == reflect.Interface && chosen.Type().Implements(field.Type()) {
				field.Set(chosen)
			}
		}
	}
	return nil
}

// nameOf is the name of a field in values; a choice has none.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// Plain is the value that the server is given for a message, a list, a map or what is plain already. Fields that are zero
// or unset are left out.
func Plain(message any) any {
	if message == nil {
		return nil
	}
	return plain(reflect.ValueOf(message))
}

func plain(of reflect.Value) any {
	if of.Kind() == reflect.Pointer || of.Kind() == reflect.Interface {
		if of.IsNil() {
			return nil
		}
		if own, is := of.Interface().(plainer); is {
			return own.Plain()
		}
		return plain(of.Elem())
	}
	switch {
	case of.Kind() == reflect.Bool:
		return of.Bool()
	case of.CanInt():
		return of.Int()
	case of.CanUint():
		return int64(of.Uint())
	case of.CanFloat():
		return of.Float()
	case of.Kind() == reflect.String:
		return of.String()
	case of.Kind() == reflect.Slice && of.Type().Elem().Kind() == reflect.Uint8:
		return base64.StdEncoding.EncodeToString(of.Bytes())
	case of.Kind() == reflect.Slice:
		items := make([]any, of.Len())
		for index := range items {
			items[index] = plain(of.Index(index))
		}
		return items
	case of.Kind() == reflect.Map:
		members := make(map[string]any, of.Len())
		for entries := of.MapRange(); entries.Next(); {
			members[entries.Key().String()] = plain(entries.Value())
		}
		return members
	case of.Kind() == reflect.Struct:
		members := map[string]any{}
		plainFields(of, members)
		return members
	default:
		return nil
	}
}

func plainFields(of reflect.Value, members map[string]any) {
	for index := range of.NumField() {
		field := of.Field(index)
		name := nameOf(of.Type().Field(index))
		switch {
		case name != "" && !field.IsZero():
			members[name] = plain(field)
		case name == "" && field.Kind() == reflect.Interface && !field.IsNil():
			// The part of a choice: a pointer to a struct of one field, which counts even if it is zero.
			part := field.Elem().Elem()
			members[nameOf(part.Type().Field(0))] = plain(part.Field(0))
		}
	}
}

// JSON is a value as JSON text, in which nothing is escaped for HTML.
func JSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// Text is a message as JSON text, for logs.
func Text(message any) string {
	text, err := JSON(Plain(message))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
