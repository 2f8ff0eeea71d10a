# Every outside library is found here, once; one that is absent stops the configure step with the
# name of the Debian package that brings it.

function(headwise_require found library package)
  if(NOT ${found})
    message(FATAL_ERROR "${library} was not found. On Debian/Ubuntu: apt-get install ${package}")
  endif()
endfunction()

find_package(PkgConfig)
headwise_require(PkgConfig_FOUND "pkg-config" "pkg-config")

pkg_check_modules(HWY IMPORTED_TARGET libhwy>=1.0)
headwise_require(HWY_FOUND "Highway >= 1.0" "libhwy-dev")

if(HEADWISE_TRAINER)
  find_package(Threads REQUIRED)
  find_package(ZLIB)
  headwise_require(ZLIB_FOUND "zlib" "zlib1g-dev")
  find_package(OpenSSL COMPONENTS Crypto)
  headwise_require(OPENSSL_FOUND "OpenSSL's libcrypto" "libssl-dev")
  find_package(ICU COMPONENTS uc i18n)
  headwise_require(ICU_FOUND "ICU" "libicu-dev")
  find_package(nlohmann_json QUIET)
  headwise_require(nlohmann_json_FOUND "nlohmann-json" "nlohmann-json3-dev")
  find_package(CLI11 QUIET)
  headwise_require(CLI11_FOUND "CLI11" "libcli11-dev")
  find_package(spdlog QUIET)
  headwise_require(spdlog_FOUND "spdlog" "libspdlog-dev")
  pkg_check_modules(TOMLPLUSPLUS IMPORTED_TARGET tomlplusplus)
  headwise_require(TOMLPLUSPLUS_FOUND "toml++" "libtomlplusplus-dev")
  pkg_check_modules(SENTENCEPIECE IMPORTED_TARGET sentencepiece)
  headwise_require(SENTENCEPIECE_FOUND "SentencePiece" "libsentencepiece-dev")
endif()

if(HEADWISE_TESTS)
  find_package(GTest QUIET)
  headwise_require(GTest_FOUND "GoogleTest" "libgtest-dev")
endif()
