"""The toolchain file in a project that has what compilers from GCC 13 on refuse in Horovod."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hvdprof.machine.install.build_packages import cmake_version
from hvdprof.machine.install.horovod_recipe import TOOLCHAIN_FILE

PROJECT = """cmake_minimum_required(VERSION 3.13)
project(horovod CXX)
set(CMAKE_CXX_STANDARD 14)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
string(REGEX REPLACE "-std=[^ ]+" "" CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS}")
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} -fPIC")
add_library(LIBRARY SHARED names.cc spans.cc)
target_include_directories(LIBRARY PRIVATE third_party/flatbuffers/include)
"""

# No header is included, so that each compiler lacks what newer ones lack in Horovod's sources.
NAMES = """std::string name(int64_t of, uint16_t rank) {
  if (of < rank) throw std::logic_error("rank");
  return std::string(rank, 'x');
}
static_assert(__cplusplus == 201703L, "C++17");
static_assert(FROM_CXXFLAGS == 1, "CXXFLAGS");
"""

SPANS = """#include "flatbuffers/flatbuffers.h"
// Called, so that each compiler sees the assignment that GCC 14 sees in the template itself.
void assign(flatbuffers::span<int>& to, const flatbuffers::span<int>& from) { to = from; }
"""
FLATBUFFERS = '#include "flatbuffers/stl_emulation.h"\n'
SPAN = """namespace flatbuffers {
template <class T> class span {
  typedef T* pointer;
  typedef unsigned long size_type;

 public:
  span& operator=(const span& other) {
    data_ = other.data_;
    count_ = other.count_;
    return *this;
  }

 private:
  pointer const data_;
  const size_type count_;
};
}
"""


@pytest.fixture(params=["pytorch", "tensorflow"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if cmake_version(os.environ["PATH"]) is None or shutil.which("g++") is None:
        pytest.skip("needs CMake and g++")
    folder = tmp_path / "source"
    headers = folder / "third_party" / "flatbuffers" / "include" / "flatbuffers"
    headers.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(PROJECT.replace("LIBRARY", request.param))
    (folder / "names.cc").write_text(NAMES)
    (folder / "spans.cc").write_text(SPANS)
    (headers / "flatbuffers.h").write_text(FLATBUFFERS)
    (headers / "stl_emulation.h").write_text(SPAN)
    return folder


def test_it_brings_what_newer_compilers_lack_and_leaves_the_source_alone(source: Path) -> None:
    build = source.parent / "build"
    environment = {
        **os.environ,
        "CMAKE_TOOLCHAIN_FILE": str(TOOLCHAIN_FILE),
        "CXXFLAGS": "-DFROM_CXXFLAGS=1",
    }
    options = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-S", str(source), "-B", str(build)]
    for command in (["cmake", *options], ["cmake", "--build", str(build), "--verbose"]):
        answer = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "-include string" in answer.stdout
    header = source / "third_party" / "flatbuffers" / "include" / "flatbuffers" / "stl_emulation.h"
    assert header.read_text() == SPAN
