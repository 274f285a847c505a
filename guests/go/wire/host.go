//go:build wasip1

package wire

import (
	"errors"
	"unsafe"
)

// Version is the version of the convention.
const Version = 1

//go:wasmimport throng call
func hostCall(at unsafe.Pointer, length uint32) uint32

//go:wasmimport throng take
func hostTake(at unsafe.Pointer, length uint32)

//go:wasmimport throng give
func hostGive(at unsafe.Pointer, length uint32)

// Take gives what the server has for the guest.
func Take(length uint32) []byte {
	bytes := make([]byte, length)
	hostTake(unsafe.Pointer(unsafe.SliceData(bytes)), length)
	return bytes
}

// Give hands the server what the running call comes to.
func Give(bytes []byte) {
	hostGive(unsafe.Pointer(unsafe.SliceData(bytes)), uint32(len(bytes)))
}

// Call calls a function of the server by its name there, docs/lua/functions.md. It may wait meanwhile, and
// other calls run. A refusal is an error with the server's text.
func Call(name string, arguments ...any) ([]any, error) {
	bytes := AppendName(append(AppendList(make([]byte, 0, 256), 1+len(arguments)), tagBytes), name)
	var err error
	for _, argument := range arguments {
		if bytes, err = Append(bytes, argument); err != nil {
			return nil, err
		}
	}
	answer := Take(hostCall(unsafe.Pointer(unsafe.SliceData(bytes)), uint32(len(bytes))))
	if len(answer) == 0 {
		return nil, errBadValue
	}
	value, err := Decode(answer[1:])
	if err != nil {
		return nil, err
	}
	if answer[0] == 0 {
		results, _ := value.([]any)
		return results, nil
	}
	text, _ := value.(string)
	return nil, errors.New(text)
}
