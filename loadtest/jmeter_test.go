package loadtest

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"lastitem/loadtest/plan"
)

// jmxProperties reads every named property of a JMeter test plan: name to values.
func jmxProperties(t *testing.T, path string) map[string][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	properties := map[string][]string{}
	name := ""
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return properties
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", path, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name = ""
			for _, a := range token.Attr {
				if a.Name.Local == "name" {
					name = a.Value
				}
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); name != "" && text != "" {
				properties[name] = append(properties[name], text)
			}
		case xml.EndElement:
			name = ""
		}
	}
}

// The shipped JMeter plan equals the plan "jmeter", so that both measure the same.
func TestJMeterPlanIsOurs(t *testing.T) {
	properties := jmxProperties(t, "jmeter/deduct_stock.jmx")
	plans, ok := plan.Named("jmeter")
	if !ok || len(plans) != 1 {
		t.Fatalf("Named(jmeter) = %v, %t, want one plan", plans, ok)
	}
	p := plans[0].WithDefaults()
	want := map[string]string{
		"ThreadGroup.num_threads": "${__P(threads," + strconv.Itoa(p.VUs) + ")}",
		"LoopController.loops":    "${__P(loops," + strconv.Itoa(p.Loops) + ")}",
		"HTTPSampler.domain":      "${__P(host,localhost)}",
		"HTTPSampler.port":        "${__P(port,8080)}",
		"HTTPSampler.path":        "/deduct_stock/${__P(mode,lua-lock)}?wait_ms=" + strconv.FormatInt(p.Wait.Milliseconds(), 10),
		"HTTPSampler.method":      "POST",
		"Argument.value":          `{"product_id":${__P(product,` + strconv.FormatInt(p.Product, 10) + `)},"quantity":` + strconv.FormatInt(p.Quantity, 10) + `}`,
	}
	for name, value := range want {
		if got := strings.Join(properties[name], "|"); got != value {
			t.Errorf("%s = %q, want %q", name, got, value)
		}
	}
	if got := strings.Join(properties["49586"], "|"); !strings.Contains(got, "200") || !strings.Contains(got, "409") {
		t.Errorf("response assertion accepts %q, want 200 and 409", got)
	}
}
