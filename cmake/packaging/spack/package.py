# A recipe for Spack: put this folder into a repository of recipes as packages/busbar, then, in a
# checkout of busbar, `spack dev-build busbar@main +gpu`.
from spack.package import *


class Busbar(CMakePackage):
    """NCCL microbenchmarks and deep-learning proxies: what a GPU cluster's interconnect does."""

    license("Apache-2.0")

    version("main")

    variant("gpu", default=True, description="build bench and proxy: need CUDA, NCCL and MPI")
    variant(
        "cuda_arch",
        default="none",
        multi=True,
        values=("none", "70", "75", "80", "86", "89", "90", "100", "110", "120"),
        description="GPUs that device code is built for, as 90; none: all known ones",
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
