# A Spack recipe. Copy this folder to packages/busbar of a Spack repository, then run
# `spack dev-build busbar@main +gpu` in a checkout of busbar.
from spack.package import *


class Busbar(CMakePackage):
    """NCCL microbenchmarks and proxies of deep-learning training for GPU clusters."""

    license("Apache-2.0")

    version("main")

    variant("gpu", default=True, description="build bench and proxy (needs CUDA, NCCL and MPI)")
    variant(
        "cuda_arch",
        default="none",
        multi=True,
        values=("none", "70", "75", "80", "86", "89", "90", "100", "110", "120"),
        description="GPU architectures of the device code, such as 90; none: all supported",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+gpu")
    depends_on("cmake@3.25:", type="build")
    depends_on("jansson")
    with when("+gpu"):
        depends_on("cuda@12:")
        depends_on("nccl@2.19:")
        depends_on("mpi")

    def cmake_args(self):
        args = [self.define_from_variant("BUSBAR_GPU", "gpu"), self.define("BUSBAR_TESTS", "OFF")]
        archs = self.spec.variants["cuda_arch"].value
        if "none" not in archs:
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", ";".join(archs)))
        return args
