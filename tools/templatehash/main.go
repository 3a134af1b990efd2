// Command templatehash writes the layout of the Go types that a pod template is made of, and what Kruise Rollouts hashes
// of templates: the dump of the struct, and its hash.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"strings"

	"github.com/davecgh/go-spew/spew"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// A field is its Go name, its JSON name (empty where its members are inlined), its type as it is printed, and its shape.
type field [4]string

var layouts = map[string][]field{}

func name(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + name(t.Elem())
	case reflect.Slice:
		return "[]" + name(t.Elem())
	case reflect.Map:
		return "map[" + name(t.Key()) + "]" + name(t.Elem())
	}
	if t.Kind() == reflect.Struct {
		return t.String()
	}
	return t.Kind().String()
}

func walk(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		walk(t.Elem())
	case reflect.Map:
		walk(t.Key())
		walk(t.Elem())
	case reflect.Struct:
		if _, known := layouts[t.String()]; known {
			return
		}
		fields := []field{}
		layouts[t.String()] = fields
		for i := 0; i < t.NumField(); i++ {
			f := t.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, field{f.Name, tag, f.Type.String(), name(f.Type)})
			if t.String() != "time.Time" && t.String() != "inf.Dec" {
				walk(f.Type)
			}
		}
		layouts[t.String()] = fields
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "layout" {
		walk(reflect.TypeFor[v1.PodTemplateSpec]())
		out, _ := json.Marshal(layouts)
		fmt.Println(string(out))
		return
	}
	var templates []v1.PodTemplateSpec
	if err := json.NewDecoder(os.Stdin).Decode(&templates); err != nil {
		panic(err)
	}
	for _, template := range templates {
		printer := spew.ConfigState{Indent: " ", SortKeys: true, DisableMethods: true, SpewKeys: true}
		dump := printer.Sprintf("%#v", template)
		hasher := fnv.New32a()
		hasher.Write([]byte(dump))
		line, _ := json.Marshal(map[string]string{"dump": dump, "hash": rand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))})
		fmt.Println(string(line))
	}
}
