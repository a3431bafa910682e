package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// istio is the peer that benchmarks measure against and that tests compare with,
// and the command line that people use with either. It is built as one: the two
// programs share nearly all packages.
var istio = module{
	folder: "istio", name: "istio", version: "v0.0.0-20260827124520-eed52ebb66ad",
	flags:    []string{"-tags", "vtprotobuf,disable_pgv", "-ldflags", "-s -w"},
	packages: []string{"istio.io/istio/pilot/cmd/pilot-discovery", "istio.io/istio/istioctl/cmd/istioctl"},
}

// Istiod returns the path of pilot-discovery and of the file with the CRDs it
// needs, building and copying them if they are not there yet.
func Istiod(ctx context.Context, log Log) (binary, crds string, err error) {
	folder, err := istioFolder(ctx, log)
	if err != nil {
		return "", "", err
	}
	return filepath.Join(folder, "pilot-discovery"), filepath.Join(folder, "crds.yaml"), nil
}

// Istioctl returns the path of istioctl, building it if it is not there yet.
func Istioctl(ctx context.Context, log Log) (string, error) {
	folder, err := istioFolder(ctx, log)
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "istioctl"), nil
}

func istioFolder(ctx context.Context, log Log) (string, error) {
	return istio.build(ctx, log, func(source, folder string) error {
		root, err := moduleDir(ctx, source, "istio.io/istio")
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, "manifests/charts/base/files/crd-all.gen.yaml"))
		if err != nil {
			return fmt.Errorf("reading istiod's CRDs: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, "crds.yaml"), b, 0o644); err != nil {
			return fmt.Errorf("copying istiod's CRDs: %w", err)
		}
		return nil
	})
}

// IstioCRDs returns the path of a file with the CRDs of Istio's API
// (ServiceEntry and the rest). It builds nothing: the file is in the module of
// the API's types.
func IstioCRDs(ctx context.Context, log Log) (string, error) {
	source, err := beside(istio.folder)
	if err != nil {
		return "", err
	}
	sum, err := istio.key(source)
	if err != nil {
		return "", err
	}
	folder, err := once(ctx, "crds-of-"+sum, log, func(folder string) error {
		root, err := moduleDir(ctx, source, "istio.io/api")
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, "kubernetes/customresourcedefinitions.gen.yaml"))
		if err != nil {
			return fmt.Errorf("reading Istio's CRDs: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, "crds.yaml"), b, 0o644); err != nil {
			return fmt.Errorf("copying Istio's CRDs: %w", err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "crds.yaml"), nil
}

// moduleDir downloads a module that the one in folder requires, unless it is
// there, and returns where it lies.
func moduleDir(ctx context.Context, folder, path string) (string, error) {
	out, err := goCommand(ctx, folder, "mod", "download", "-json", path)
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", path, err)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("downloading %s: %w", path, err)
	}
	return m.Dir, nil
}
