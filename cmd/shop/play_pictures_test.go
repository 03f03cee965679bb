package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"lastitem/internal/testenv/need"
)

// envPictures names the directory of the documentation's pictures, which TestPictures writes: make pictures.
const envPictures = "SHOP_TEST_PICTURES"

// maxPicture bounds a picture, in bytes: a README is read over slow lines too.
const maxPicture = 300 << 10

// TestPictures takes the pictures that the documentation shows, from the page in a browser, in both languages.
func TestPictures(t *testing.T) {
	dir := need.Asked(t, envPictures, "make pictures")
	b := pictureTab(t, startPlay(t, program(t)))
	for _, lang := range []string{"en", "zh"} {
		b.take(dir, lang)
	}
	b.clean()
}

// pictures is a tab that takes pictures.
type pictures struct {
	*tab
	address string
}

func pictureTab(t *testing.T, p playing) pictures {
	t.Helper()
	b := pictures{openTab(t, p.base), p.address}
	b.look(1280, "light")
	return b
}

// take takes the four pictures in a language.
func (b pictures) take(dir, lang string) {
	b.t.Helper()
	b.do("open", chromedp.Navigate(strings.Replace(b.address, "#", "?lang="+lang+"#", 1)))
	b.wait(`!!document.querySelector('.go')`)
	b.run("unsafe")
	b.wait(redOverlaps)
	b.save(dir, "run."+lang, "")
	b.save(dir, "timeline."+lang, "document.querySelector('canvas.lanes').closest('section')")
	eval[string](b.tab, `location.hash = '#/matrix'`)
	b.wait(`document.querySelectorAll('main table tbody tr').length > 30`)
	b.save(dir, "matrix."+lang, "")
	eval[string](b.tab, `location.hash = '#/step/sell-twice/abaabb'`)
	b.wait(`!!document.querySelector('.verdict.is-good .verdict-line')`)
	b.save(dir, "step."+lang, "")
}

// save writes a picture of what is in the window, or of an element.
func (b pictures) save(dir, name, element string) {
	b.t.Helper()
	eval[bool](b.tab, `(scrollTo(0, 0), true)`)
	box := []float64{0, 0, 1280, 860}
	if element != "" {
		box = eval[[]float64](b.tab, fmt.Sprintf(`(() => { const r = %s.getBoundingClientRect(); return [r.x - 16, r.y + scrollY - 16, r.width + 32, r.height + 32]; })()`, element))
	}
	quality, beyond := int64(85), true
	got, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: "webp", Quality: &quality, CaptureBeyondViewport: &beyond,
		Clip: &page.Viewport{X: box[0], Y: box[1], Width: box[2], Height: box[3], Scale: 1},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(got.Data) < 5<<10 || len(got.Data) > maxPicture {
		b.t.Errorf("%s has %d bytes, want 5 to 300 kB", name, len(got.Data))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".webp"), got.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
