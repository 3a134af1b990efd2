// Command schemas writes what the embedded API server must know of the built-in Kubernetes types: names, numbers and
// types of fields. It reads them from the Go types by reflection and from the published OpenAPI documents; descriptions
// are left out. The format is explained in README.md.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"kohort.dev/tools/schemas/served"
)

// special are the types that write their own JSON. They become leaves, named by one word.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "fieldsv1",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "intstr",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "orbool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "orarray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "orstrings",
}

type unmarshaler interface{ Unmarshal([]byte) error }

var protobufMessage = reflect.TypeFor[unmarshaler]()

type generator struct {
	schemas map[string]map[string]any // OpenAPI schemas by name
	types   map[string]any
	pending []reflect.Type
}

// record is one struct; the keys are single letters because there are a thousand of them.
type record struct {
	GoType   string              `json:"g"`
	Fields   [][]any             `json:"f"`
	Inline   [][]any             `json:"i,omitempty"`
	Required []string            `json:"r,omitempty"`
	Atomic   bool                `json:"a,omitempty"`
	Kinds    []map[string]string `json:"k,omitempty"`
}

func main() {
	openapi := flag.String("openapi", "", "folder with the published OpenAPI v3 documents")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	g := &generator{schemas: readSchemas(*openapi), types: map[string]any{}}
	kinds := g.addKinds(served.Scheme())
	for len(g.pending) > 0 {
		t := g.pending[0]
		g.pending = g.pending[1:]
		if _, done := g.types[name(t)]; !done {
			g.types[name(t)] = g.describe(t)
		}
	}
	write(*out, kinds, g.types)
}

// addKinds queues the Go type of every kind and returns the type name by "group/version/Kind".
func (g *generator) addKinds(scheme *runtime.Scheme) map[string]any {
	kinds := map[string]any{}
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds[gvk.Group+"/"+gvk.Version+"/"+gvk.Kind] = name(t)
		g.pending = append(g.pending, t)
	}
	sort.Slice(g.pending, func(i, j int) bool { return name(g.pending[i]) < name(g.pending[j]) })
	return kinds
}

func (g *generator) describe(t reflect.Type) record {
	schema := g.schemas[name(t)]
	r := record{GoType: t.String(), Fields: [][]any{}, Atomic: schema["x-kubernetes-map-type"] == "atomic"}
	for _, field := range reflect.VisibleFields(t) {
		if len(field.Index) > 1 || !field.IsExported() {
			continue
		}
		jsonName, options := split(field.Tag.Get("json"))
		number, _ := protobufTag(field)
		if jsonName == "-" {
			continue
		}
		if jsonName == "" { // inline
			if _, published := g.schemas[name(field.Type)]; !published {
				g.schemas[name(field.Type)] = schema // known only as part of the struct around it
			}
			r.Inline = append(r.Inline, []any{g.expression(field.Type, field), number, len(r.Fields)})
			continue
		}
		entry := []any{jsonName, g.expression(field.Type, field), flags(options), number}
		if extras := extras(field, properties(schema)[jsonName]); len(extras) > 0 {
			entry = append(entry, extras)
		}
		r.Fields = append(r.Fields, entry)
	}
	for _, n := range list(schema["required"]) {
		r.Required = append(r.Required, n.(string))
	}
	for _, k := range list(schema["x-kubernetes-group-version-kind"]) {
		gvk := map[string]string{}
		for key, value := range k.(map[string]any) {
			gvk[key] = value.(string)
		}
		r.Kinds = append(r.Kinds, gvk)
	}
	return r
}

// expression writes a type down: `*T` pointer, `[T]` slice, `{T}` map with string keys, `(T)` a slice that is a message
// of its own in protobuf, else a scalar, a special word or the full name of a struct. `=` adds the Go name where it does
// not follow from the rest.
func (g *generator) expression(t reflect.Type, field reflect.StructField) string {
	full := t.PkgPath() + "." + t.Name()
	if word, ok := special[full]; ok {
		if word != "time" && word != "microtime" && word != "duration" && word != "quantity" {
			g.pendingOf(t, word)
		}
		return word
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + g.expression(t.Elem(), field)
	case reflect.Struct:
		g.pending = append(g.pending, t)
		return name(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return named("bytes", t, "[]uint8")
		}
		element := "[" + g.expression(t.Elem(), field) + "]"
		if t.Name() != "" && reflect.PointerTo(t).Implements(protobufMessage) {
			element = "(" + g.expression(t.Elem(), field) + ")"
		}
		return named(element, t, "[]"+t.Elem().String())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("map key of %v", t))
		}
		return named("{"+g.expression(t.Elem(), field)+"}", t, "map[string]"+t.Elem().String())
	case reflect.Interface:
		return "any"
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return named(t.Kind().String(), t, t.Kind().String())
	case reflect.Int:
		return named("int64", t, "int64")
	}
	panic(fmt.Sprintf("no expression for %v in %v", t, field.Name))
}

// pendingOf queues the structs hidden behind a type that writes its own JSON.
func (g *generator) pendingOf(t reflect.Type, word string) {
	if !strings.HasPrefix(word, "or") {
		return
	}
	for i := range t.NumField() {
		inner := t.Field(i).Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			g.pending = append(g.pending, inner)
		}
	}
}

func named(expression string, t reflect.Type, plain string) string {
	if t.String() == plain {
		return expression
	}
	return expression + "=" + t.String()
}

// name is the OpenAPI name of a type: k8s.io/api/core/v1.Pod is io.k8s.api.core.v1.Pod.
func name(t reflect.Type) string {
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

func split(tag string) (string, []string) {
	parts := strings.Split(tag, ",")
	return parts[0], parts[1:]
}

// flags: 1 omitempty, 2 omitzero.
func flags(options []string) int {
	result := 0
	for _, option := range options {
		switch option {
		case "omitempty":
			result |= 1
		case "omitzero":
			result |= 2
		}
	}
	return result
}

func protobufTag(field reflect.StructField) (int, string) {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0, ""
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		panic(err)
	}
	return number, parts[0]
}

// extras are the merge rules and value restrictions of one field, by one-letter keys.
func extras(field reflect.StructField, property map[string]any) map[string]any {
	result := map[string]any{}
	if v := field.Tag.Get("patchStrategy"); v != "" {
		result["s"] = strings.Split(v, ",")
	}
	if v := field.Tag.Get("patchMergeKey"); v != "" {
		result["m"] = v
	}
	if v, ok := property["x-kubernetes-list-type"]; ok && v != "atomic" {
		result["l"] = v
	}
	if v, ok := property["x-kubernetes-list-map-keys"]; ok {
		result["k"] = v
	}
	if v, ok := property["x-kubernetes-map-type"]; ok {
		result["t"] = v
	}
	items, _ := property["items"].(map[string]any)
	if v, ok := property["enum"]; ok {
		result["e"] = v
	} else if v, ok := items["enum"]; ok {
		result["e"] = v
	}
	if v, ok := property["default"]; ok && !zero(v) {
		result["d"] = v
	}
	return result
}

// zero tells the defaults that only mirror a zero value of Go from those that mean something.
func zero(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(value).IsZero()
}

func properties(schema map[string]any) map[string]map[string]any {
	result := map[string]map[string]any{}
	all, _ := schema["properties"].(map[string]any)
	for key, value := range all {
		result[key], _ = value.(map[string]any)
	}
	return result
}

func list(value any) []any {
	result, _ := value.([]any)
	return result
}

func readSchemas(folder string) map[string]map[string]any {
	entries, err := os.ReadDir(folder)
	if err != nil {
		panic(err)
	}
	result := map[string]map[string]any{}
	for _, entry := range entries {
		data, err := os.ReadFile(folder + "/" + entry.Name())
		if err != nil {
			panic(err)
		}
		var document struct {
			Components struct {
				Schemas map[string]map[string]any `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(data, &document); err != nil {
			panic(err)
		}
		for name, schema := range document.Components.Schemas {
			result[name] = schema
		}
	}
	return result
}

// write puts every type on a line of its own, so that the next Kubernetes version shows as a readable difference.
func write(path string, kinds, types map[string]any) {
	var out bytes.Buffer
	out.WriteString("{\"kinds\":{\n")
	lines(&out, kinds)
	out.WriteString("},\"types\":{\n")
	lines(&out, types)
	out.WriteString("}}\n")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		panic(err)
	}
}

func lines(out *bytes.Buffer, entries map[string]any) {
	names := make([]string, 0, len(entries))
	for n := range entries {
		names = append(names, n)
	}
	sort.Strings(names)
	for i, n := range names {
		value, err := json.Marshal(entries[n])
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(out, "%q:%s", n, value)
		if i < len(names)-1 {
			out.WriteString(",")
		}
		out.WriteString("\n")
	}
}
