package parts

import (
	"context"
	"path/filepath"
)

// KubernetesVersion is the release of the API server and controller manager.
const KubernetesVersion = "1.36.3"

// kubernetes is built as one: the two programs share nearly all packages.
// Without the version in the binary an API server calls itself v0.0.0 and
// refuses to start.
var kubernetes = module{
	folder: "kubernetes", name: "kubernetes", version: "v" + KubernetesVersion,
	flags: []string{"-ldflags", "-s -w" +
		" -X k8s.io/component-base/version.gitVersion=v" + KubernetesVersion +
		" -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=36"},
	packages: []string{"k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kube-controller-manager"},
}

// KubeAPIServer returns the path of kube-apiserver, building it if it is not
// there yet.
func KubeAPIServer(ctx context.Context, log Log) (string, error) {
	return kubernetesBinary(ctx, log, "kube-apiserver")
}

// KubeControllerManager returns the path of kube-controller-manager, building
// it if it is not there yet.
func KubeControllerManager(ctx context.Context, log Log) (string, error) {
	return kubernetesBinary(ctx, log, "kube-controller-manager")
}

func kubernetesBinary(ctx context.Context, log Log, name string) (string, error) {
	folder, err := kubernetes.build(ctx, log, nil)
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, name), nil
}
