// Command vectors fills objects of every served kind with values and writes each as protobuf (base64) and as JSON: what
// the decoder of protobuf bodies is tested with. Values are chosen so that zero and non-zero scalars, nil and empty
// pointers, lists and maps all occur.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kohort.dev/tools/schemas/served"
)

type vector struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Protobuf   string          `json:"protobuf"`
	JSON       json.RawMessage `json:"json"`
}

// filler sets fields at random; deeper levels are emptier, so that recursive types end.
type filler struct{ random *rand.Rand }

func (f *filler) fill(v reflect.Value, depth int) {
	if f.special(v, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.random.Intn(2*depth+2) <= 1 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
			if writesNull(v.Elem()) {
				v.SetZero()
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() && field.Type != reflect.TypeFor[metav1.TypeMeta]() && field.Tag.Get("json") != "-" {
				f.fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		f.fillSlice(v, depth)
	case reflect.Map:
		f.fillMap(v, depth)
	case reflect.String:
		v.SetString([]string{"", "a", "näme", "some-longer-text.example.com/with-path"}[f.random.Intn(4)])
	case reflect.Bool:
		v.SetBool(f.random.Intn(2) == 0)
	case reflect.Int32:
		v.SetInt([]int64{0, 1, -1, 300, -2147483648, 2147483647}[f.random.Intn(6)])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 300, -9223372036854775808, 9223372036854775807}[f.random.Intn(6)])
	case reflect.Float64:
		v.SetFloat([]float64{0, 1.5, -2, 1e3}[f.random.Intn(4)])
	default:
		panic(fmt.Sprintf("cannot fill %v", v.Type()))
	}
}

// writesNull tells values that are written as null, which reads as no pointer at all: no round trip keeps them.
func writesNull(v reflect.Value) bool {
	switch value := v.Interface().(type) {
	case metav1.Time:
		return value.IsZero()
	case metav1.MicroTime:
		return value.IsZero()
	case runtime.RawExtension:
		return value.Raw == nil
	}
	return false
}

func (f *filler) fillSlice(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([][]byte{nil, {0, 255, 7}, []byte("text")}[f.random.Intn(3)])
		return
	}
	if f.random.Intn(2*depth+2) > 1 {
		return
	}
	n := 1 + f.random.Intn(2)
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		f.fill(v.Index(i), depth+1)
	}
}

func (f *filler) fillMap(v reflect.Value, depth int) {
	if f.random.Intn(2*depth+2) > 1 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := range 1 + f.random.Intn(2) {
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value, depth+1)
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString([]string{"x", "example.com/y"}[i])
		v.SetMapIndex(key, value)
	}
}

// special fills the types that write their own JSON.
func (f *filler) special(v reflect.Value, depth int) bool {
	switch target := v.Addr().Interface().(type) {
	case *metav1.Time:
		*target = []metav1.Time{{}, metav1.Unix(0, 0), metav1.Unix(1700000000, 999)}[f.random.Intn(3)]
	case *metav1.MicroTime:
		*target = []metav1.MicroTime{{}, {Time: time.Unix(1700000000, 123456000).UTC()}}[f.random.Intn(2)]
	case *resource.Quantity:
		*target = resource.MustParse([]string{"0", "100m", "1Gi", "2", "1500m"}[f.random.Intn(5)])
	case *intstr.IntOrString:
		*target = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(8080), intstr.FromString("25%"), intstr.FromString("")}[f.random.Intn(4)]
	case *runtime.RawExtension:
		target.Raw = [][]byte{nil, []byte(`{"a":[1,2.5,null],"b":{"c":"d"}}`)}[f.random.Intn(2)]
	case *metav1.FieldsV1:
		*target = metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:name":{}}}`)}
	case *apiextensionsv1.JSON:
		target.Raw = [][]byte{[]byte(`"x"`), []byte(`{"a":1}`), []byte(`0`)}[f.random.Intn(3)]
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		target.Allows = f.random.Intn(2) == 0
		if f.random.Intn(depth+1) == 0 {
			target.Allows, target.Schema = true, &apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		target.Schema = &apiextensionsv1.JSONSchemaProps{Type: "integer", Nullable: true}
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		target.Property = []string{"p", ""}
	default:
		return false
	}
	return true
}

func main() {
	out := flag.String("out", "", "file to write")
	perKind := flag.Int("per-kind", 1, "objects of each kind")
	flag.Parse()
	scheme := served.Scheme()
	serializer := protobuf.NewSerializer(scheme, scheme)
	kinds := []schema.GroupVersionKind{}
	for gvk := range scheme.AllKnownTypes() {
		if wanted(gvk) {
			kinds = append(kinds, gvk)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	vectors := []vector{}
	for _, gvk := range kinds {
		f := &filler{random: rand.New(rand.NewSource(int64(len(vectors)) + 1))}
		for range *perKind {
			object, err := scheme.New(gvk)
			if err != nil {
				panic(err)
			}
			f.fill(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(gvk)
			vectors = append(vectors, encode(serializer, gvk, object))
		}
	}
	data, err := json.Marshal(vectors)
	if err != nil {
		panic(err)
	}
	data = bytes.ReplaceAll(data, []byte(`},{"apiVersion"`), []byte("},\n{\"apiVersion\""))
	if err := os.WriteFile(*out, append(data, '\n'), 0o644); err != nil {
		panic(err)
	}
}

// wanted leaves out lists and the options of requests, which are never sent as bodies; they exist once per group.
func wanted(gvk schema.GroupVersionKind) bool {
	switch {
	case gvk.Version == runtime.APIVersionInternal, gvk.Group == "meta.k8s.io", strings.HasSuffix(gvk.Kind, "List"):
		return false
	case gvk.Kind == "DeleteOptions":
		return gvk.Group == "apps"
	case strings.HasSuffix(gvk.Kind, "Options"), strings.HasPrefix(gvk.Kind, "API") && gvk.Kind != "APIService":
		return false
	}
	return gvk.Kind != "WatchEvent" && gvk.Kind != "Status"
}

func encode(serializer runtime.Serializer, gvk schema.GroupVersionKind, object runtime.Object) vector {
	var wire bytes.Buffer
	if err := serializer.Encode(object, &wire); err != nil {
		panic(err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprint(gvk, err))
	}
	return vector{gvk.GroupVersion().String(), gvk.Kind, base64.StdEncoding.EncodeToString(wire.Bytes()), text}
}
