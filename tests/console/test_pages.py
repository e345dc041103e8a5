"""What all pages have in common."""

from batchq.api.console.pages import HEADERS, NOT_FOUND


async def test_a_page_is_not_cached_and_allows_no_inline_script(browser):
    page = await browser.open("/ui/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert HEADERS.items() <= dict(page.headers).items()


async def test_a_fragment_is_a_block_of_the_page_and_is_sent_again_only_if_it_changed(browser):
    whole, part = await browser.open("/ui/"), await browser.open("/ui/", X_Fragment="live")
    assert part.body in whole.body
    same = await browser.open("/ui/", X_Fragment="live", If_None_Match=part.headers["ETag"], status=304)
    assert same.body == ""


async def test_a_fragment_that_the_page_does_not_have_is_not_found(browser):
    assert NOT_FOUND in (await browser.open("/ui/", X_Fragment="other", status=404)).text


async def test_an_unknown_path_has_the_page_of_what_is_not_visible(browser):
    assert NOT_FOUND in (await browser.open("/ui/nothing", status=404)).text


async def test_static_files_may_be_kept_for_ever(browser):
    style = next(it for it in (await browser.open("/ui/")).body.split('"') if it.endswith(".css"))
    assert (await browser.open(style)).headers["Cache-Control"] == "public, max-age=31536000, immutable"
