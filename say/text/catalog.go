// Package text has the sentences for users: English stands in the code where it is said ([Of], [Table]), its Chinese in
// zh.json, by the English. Errors follow the language of their reader too ([Text.Errorf], [ErrorIn]).
package text

import (
	_ "embed"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// zhJSON is the catalog: the Chinese sentence of each English one. A test finds what is missing, stale or has other
// arguments.
//
//go:embed zh.json
var zhJSON []byte

var zh = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	if err := json.Unmarshal(zhJSON, &all); err != nil {
		panic(err) // the file is a part of the program
	}
	return all
})

// Of returns the sentence or format en, a constant, with its Chinese from the catalog.
func Of(en string) Text { return Text{En: en, Zh: zh()[en]} }

// Known returns the sentence en, a variable, with its Chinese if the catalog has it.
func Known(en string) Text { return Of(en) }

// List writes names one after the other.
func List(names []string) Text {
	return Text{En: strings.Join(names, ", "), Zh: strings.Join(names, "、")}
}

// Plain returns a text that is the same in all languages: a name, a command.
func Plain(name string) Text { return Text{En: name, Zh: name} }

// With fills in the arguments as [Sprintf] does; one that is a Text follows the language.
func (t Text) With(args ...any) Text {
	return Text{En: Sprintf(t.En, inLanguage("en", args)...), Zh: Sprintf(t.Zh, inLanguage("zh", args)...)}
}

// inLanguage returns the arguments with each Text and each error in the language lang.
func inLanguage(lang string, args []any) []any {
	said := make([]any, len(args))
	for i, arg := range args {
		switch x := arg.(type) {
		case error:
			said[i] = errors.New(ErrorIn(lang, x)) // an error, since the format may say %w
		case Text:
			said[i] = x.In(lang)
		default:
			said[i] = arg
		}
	}
	return said
}

// Words are the sentences of one page or table: a struct or map with strings, in both languages.
type Words[T any] struct{ en, zh T }

// Table returns the words en, constants, with their Chinese from the catalog.
func Table[T any](en T) Words[T] {
	w := Words[T]{en: en, zh: en}
	translate(reflect.ValueOf(&w.zh).Elem())
	return w
}

// In returns the words in the language lang ("zh", else English).
func (w Words[T]) In(lang string) T {
	if lang == "zh" {
		return w.zh
	}
	return w.en
}

// translate replaces each string below v, which can be set, by its Chinese, if the catalog has it; maps and slices are
// copied first.
func translate(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if said, there := zh()[v.String()]; there {
			v.SetString(said)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			// The fields of such a table are unexported, and reflect sets those only by their address.
			translate(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()) //nolint:gosec // a field of a value of ours
		}
	case reflect.Map:
		said := reflect.MakeMap(v.Type())
		for key, value := range v.Seq2() {
			to := reflect.New(value.Type()).Elem()
			to.Set(value)
			translate(to)
			said.SetMapIndex(key, to)
		}
		v.Set(said)
	case reflect.Slice:
		said := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v)
		for i := range said.Len() {
			translate(said.Index(i))
		}
		v.Set(said)
	case reflect.Array:
		for i := range v.Len() {
			translate(v.Index(i))
		}
	default: // numbers and the like are the same in all languages
	}
}
