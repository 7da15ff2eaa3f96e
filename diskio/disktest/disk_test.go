package disktest

import (
	"testing"

	"millrace/diskio"
)

func TestSuiteOnSimulatedDisk(t *testing.T) {
	RunSuite(t, func(t *testing.T) (diskio.FS, string) {
		disk := New(1)
		if err := disk.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		return disk, "/data"
	})
}
